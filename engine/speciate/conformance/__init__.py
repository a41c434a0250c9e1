"""The laws every plugin of a stage must keep, as functions its author calls in a test.

    async def test_my_source_keeps_the_laws(tmp_path):
        await check_source(lambda: MySource(MyOptions(path=str(tmp_path / "events"))))

A broken law raises `AssertionError` with a sentence saying which. The built-in plugins pass the same checks.
"""

from speciate.conformance.densities import check_density
from speciate.conformance.encoders import check_encoder
from speciate.conformance.policies import check_policy
from speciate.conformance.sinks import check_sink
from speciate.conformance.sources import check_source
from speciate.conformance.stores import check_store

__all__ = ["check_density", "check_encoder", "check_policy", "check_sink", "check_source", "check_store"]
