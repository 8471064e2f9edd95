"""What holds for tests that run functions on ranks."""

import cloudpickle
import pytest


@pytest.fixture(autouse=True, scope="module")
def functions_travel_by_value(request):
    """A rank is given the test file's functions, and not its name: to import it, and pytest, takes nearly a second."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
