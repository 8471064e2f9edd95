# The first cell on Colab or Kaggle: finds the course, or fetches it. In the course's own folders it says nothing.
import glob
import os
import subprocess
import sys
import zipfile

REPOSITORY = ""  # owner/name on GitHub, to fetch the course from where no zip of it and no dataset is here


def course():
    attached = ["/kaggle/input" + "/*" * depth for depth in range(1, 6)]
    for folder in [".", "..", "../..", "course", "/content/course", "/kaggle/working/course", *attached]:
        for place in glob.iglob(folder + "/utils/course/colab.py"):
            return os.path.abspath(place + "/../../..")


for path in [] if course() else glob.glob("*.zip") + glob.glob("/content/*.zip") + glob.glob("/kaggle/input/*/*.zip"):
    with zipfile.ZipFile(path) as archive:
        if "course/utils/course/colab.py" in archive.namelist():
            archive.extractall()
if not course() and REPOSITORY:
    subprocess.run(["git", "clone", "-q", "--depth=1", f"https://github.com/{REPOSITORY}", "course"], check=False)
if course():
    sys.path[:0] = [course(), course() + "/utils/simgpu/src"]
    if course() not in [os.path.abspath(folder) for folder in [".", "..", "../.."]]:
        from utils.course.colab import set_up

        set_up()
else:
    print("The course is not here. Upload course.zip beside this notebook, or attach it as a dataset; run this again.")
