"""Writes a wheel as the Python Packaging User Guide specifies it ("Binary distribution format", version 1.0):

    python3 wheel.py TREE TAG FOLDER

with VERSION and SOURCE_DATE_EPOCH set. Installers put what is in scripts where the commands are, so tunefit starts
without Python. All times are that of the commit, so the same files give the same wheel.
"""
import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

tree, tag, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
version = os.environ["VERSION"]
date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
python = pathlib.Path(__file__).parent / "python"
dist = f"nccl_tuner_go-{version}"
info = f"{dist}.dist-info/"
record, licences = [], []

with zipfile.ZipFile(folder / f"{dist}-{tag}.whl", "x", zipfile.ZIP_DEFLATED) as archive:

    def add(name, content, mode=0o644):
        entry = zipfile.ZipInfo(name, date)
        entry.external_attr = (0o100000 | mode) << 16
        archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}\n")

    for path in sorted((tree / "lib").iterdir()):
        add(f"nccl_tuner_go/{path.name}", path.read_bytes(), 0o755)
    for path in sorted((tree / "bin").iterdir()):
        add(f"{dist}.data/scripts/{path.name}", path.read_bytes(), 0o755)
    # Licences, of what is linked, too, and lists of that, are about the wheel. Pages, and what they link to, are
    # beside the library: pip would leave empty folders elsewhere.
    for path in sorted(p for top in ("doc", "man", "nccl-tuner-go") for p in (tree / "share" / top).rglob("*")):
        if not path.is_file():
            continue
        content, name = path.read_bytes(), path.relative_to(tree / "share").as_posix()
        about = name.removeprefix("doc/nccl-tuner-go/")
        if about.startswith("sbom/"):
            add(f"{info}sboms/{about.removeprefix('sbom/')}", content)
            continue
        if about.startswith("licenses/") or about == "LICENSE":
            licence = about.removeprefix("licenses/")
            licences.append(f"License-File: {licence}\n")
            add(f"{info}licenses/{licence}", content)
        if not about.startswith("licenses/"):
            add(f"nccl_tuner_go/share/{name}", content, 0o755 if path.stat().st_mode & 0o100 else 0o644)

    def fill(name):
        text = (python / name).read_text().replace("@VERSION@", version)
        return text.replace("License-File: @FILES@\n", "".join(licences)).encode()

    add("nccl_tuner_go/__init__.py", fill("nccl_tuner_go.py"))
    add(f"{info}METADATA", fill("METADATA"))
    add(f"{info}WHEEL",
        f"Wheel-Version: 1.0\nGenerator: nccl-tuner-go\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    record.append(f"{info}RECORD,,\n")
    add(f"{info}RECORD", "".join(record).encode())
