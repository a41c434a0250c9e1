"""Who does not use Kafka need not have aiokafka."""

import subprocess
import sys


def test_plugins_are_imported_without_aiokafka():
    script = """
import sys
sys.modules["aiokafka"] = None
from speciate_plugins.sinks.kafka import speciate_sink
from speciate_plugins.stores.kafka import speciate_store
for provider in (speciate_sink(), speciate_store()):
    assert provider.requires == ("aiokafka",) and provider.install == "speciate[kafka]" and provider.create_at
"""
    subprocess.run([sys.executable, "-c", script], check=True)
