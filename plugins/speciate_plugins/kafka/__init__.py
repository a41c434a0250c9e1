"""Apache Kafka: events from a topic, answers to a topic, outputs and input position in one transaction."""
