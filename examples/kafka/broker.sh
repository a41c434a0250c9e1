#!/usr/bin/env bash
# One Apache Kafka node on 127.0.0.1:9092, from Maven Central, with its data in the folder "broker" beside this file.
# For trying things out: a single copy of everything, no passwords. Ctrl-C stops it; run it again to go on.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p broker
if [ ! -d broker/libs ]; then
  cat > broker/pom.xml <<'POM'
<project><modelVersion>4.0.0</modelVersion><groupId>try</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies>
  <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>3.9.1</version></dependency>
  <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
POM
  mvn -q -B -f broker/pom.xml dependency:copy-dependencies -DoutputDirectory=libs.new
  mv broker/libs.new broker/libs
fi
if [ ! -f broker/server.properties ]; then
  cat > broker/server.properties <<'PROPERTIES'
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://127.0.0.1:9092
log.dirs=broker/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
PROPERTIES
  java -cp 'broker/libs/*' kafka.tools.StorageTool format -c broker/server.properties \
    -t "$(java -cp 'broker/libs/*' kafka.tools.StorageTool random-uuid)"
fi
exec java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp 'broker/libs/*' kafka.Kafka broker/server.properties
