"""The image and the values for a hub on Kubernetes: what they name is there, in the zip that students get."""

import re

import pytest
import yaml

from tests.support.notebooks import ROOT
from utils.common.files import sources
from utils.course.release import BUNDLED

FOLDER = ROOT / "tools" / "class_image"
COURSE = "/opt/course"


@pytest.fixture(scope="module")
def dockerfile():
    return (FOLDER / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def values():
    return yaml.safe_load((FOLDER / "kubernetes.yaml").read_text())


def test_the_image_imports_the_copy_of_the_course_that_it_has(dockerfile):
    below = [folder.relative_to(ROOT).as_posix() for folder in sources(ROOT)]
    assert f"PYTHONPATH={':'.join(f'{COURSE}/{path}'.removesuffix('/.') for path in below)} " in dockerfile
    assert f"COPY course {COURSE}" in dockerfile
    [setup] = re.findall(r"python (tools/\S+\.py)", dockerfile)
    assert (ROOT / setup).is_file()
    assert "tools" in BUNDLED


def test_a_student_begins_with_copies_of_what_the_zip_has(values):
    single = values["singleuser"]
    *_, script = single["lifecycleHooks"]["postStart"]["exec"]["command"]
    copied = [word.removeprefix(f"{COURSE}/") for word in script.split() if word.startswith(COURSE)]
    assert copied == ["notebooks", "labs", "docs"]
    assert all(any(name.split("/")[0] == folder for name in BUNDLED) for folder in copied)
    assert (ROOT / single["defaultUrl"].removeprefix("/lab/tree/")).is_file()


def test_a_pod_has_the_memory_that_its_page_says(values):
    told = (ROOT / "docs" / "classroom.md").read_text()
    memory = values["singleuser"]["memory"]
    assert (
        f"{memory['guarantee'].removesuffix('G')} GB guaranteed and at most {memory['limit'].removesuffix('G')}" in told
    )
