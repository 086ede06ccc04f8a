"""Writes an image layout as the Open Container Initiative's image specification 1.1 has it, as a tar file:

    python3 image.py FILE ARCH=ROOT...

with VERSION and SOURCE_DATE_EPOCH set. It is an index of images from scratch: one for each ARCH=ROOT, with one layer,
the files in ROOT. All of them are root's, and all times are that of the commit, so the same files give the same image.
"""
import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
import time

version, seconds = os.environ["VERSION"], int(os.environ["SOURCE_DATE_EPOCH"])
media = "application/vnd.oci.image."
blobs = {}


def entry(name, mode, **about):
    header = tarfile.TarInfo(name)
    header.mode, header.mtime = mode, seconds
    for field, value in about.items():
        setattr(header, field, value)
    return header


def packed(files):
    """files are pairs of a header and its content, None for a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for header, content in files:
            header.size = len(content or b"")
            archive.addfile(header, content and io.BytesIO(content))
    return out.getvalue()


def layer(root):
    for path in sorted(root.rglob("*")):
        name, mode = path.relative_to(root).as_posix(), path.stat().st_mode & 0o777
        yield (entry(name, mode, type=tarfile.DIRTYPE), None) if path.is_dir() else (entry(name, mode), path.read_bytes())


def blob(kind, content):
    if not isinstance(content, bytes):
        content = json.dumps(content).encode()
    digest = hashlib.sha256(content).hexdigest()
    blobs["blobs/sha256/" + digest] = content
    return {"mediaType": media + kind, "digest": "sha256:" + digest, "size": len(content)}


def index(manifests):
    return {"schemaVersion": 2, "mediaType": media + "index.v1+json", "manifests": manifests}


manifests = []
for arch, root in (word.split("=", 1) for word in sys.argv[2:]):
    content = packed(layer(pathlib.Path(root)))
    config = blob("config.v1+json", {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)), "architecture": arch, "os": "linux",
        "config": {"Entrypoint": ["/copy"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]}})
    manifest = blob("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": media + "manifest.v1+json", "config": config,
        "layers": [blob("layer.v1.tar+gzip", gzip.compress(content, mtime=0))],
        "annotations": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"}})
    manifests.append(manifest | {"platform": {"architecture": arch, "os": "linux"}})
every = blob("index.v1+json", index(manifests)) | {"annotations": {"org.opencontainers.image.ref.name": version}}
blobs["index.json"] = json.dumps(index([every])).encode()
blobs["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
with open(sys.argv[1], "xb") as out:
    out.write(packed((entry(name, 0o644), content) for name, content in sorted(blobs.items())))
