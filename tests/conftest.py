from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

import tiny

# No test asserts seconds: a busy machine would fail it. All else stays, also that CI draws the same each time.
settings.register_profile("without deadlines", settings.default, deadline=None)
settings.load_profile("without deadlines")
tiny.register()
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is learnt of the files of a test module is forgotten with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRCL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def without_report() -> Iterator[None]:
    """Runs end without their page, which takes longer to draw than a small run to train; for tests that look at R."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grcl.run.write_report", lambda path: None)
        yield
