"""The Python package sets what NCCL reads, and says what is wrong with a call."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
from unittest import mock

import nccl_tuner_go
from nccl_tuner_go import enable, library


def torch(initialized):
    distributed = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: initialized)
    return types.SimpleNamespace(distributed=distributed)


class Enable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chdir(folder.name)
        pathlib.Path("policy.csv").touch()
        self.policy = os.path.abspath("policy.csv")

    def environment(self, **variables):
        patch = mock.patch.dict(os.environ, variables, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def test_alone(self):
        self.environment()
        self.assertEqual(enable(), {"NCCL_TUNER_PLUGIN": library})

    def test_settings(self):
        self.environment()
        want = {
            "NCCL_TUNER_PLUGIN": library,
            "NCCL_TUNER_CONFIG_FILE": self.policy,
            "NCCL_TUNER_RENDEZVOUS": "/shared/live/j",
            "NCCL_TUNER_STRICT": "1",
            "NCCL_TUNER_STALL_LIMIT": "5",
        }
        got = enable("policy.csv", rendezvous="/shared/live/j", strict=True, canary=False, stall_limit=5)
        self.assertEqual(got, want)
        seen = subprocess.check_output(["/bin/sh", "-c", "echo $NCCL_TUNER_CONFIG_FILE"], text=True)
        self.assertEqual(seen, self.policy + "\n")

    def test_etcd_needs_the_library_that_has_its_client(self):
        with_etcd = os.path.join(os.path.dirname(library), "libnccl-tuner-go-etcd.so")
        self.environment()
        self.assertEqual(enable(rendezvous="etcds://a:1/j")["NCCL_TUNER_PLUGIN"], with_etcd)
        self.environment(NCCL_TUNER_RENDEZVOUS="etcd://a:1/j")
        self.assertEqual(enable(), {"NCCL_TUNER_PLUGIN": with_etcd})
        for set_already in "go-etcd", with_etcd:
            self.environment(NCCL_TUNER_PLUGIN=set_already)
            self.assertEqual(enable(), {})
        with mock.patch("importlib.metadata.version", return_value="2.27.3"):
            self.environment(NCCL_TUNER_RENDEZVOUS="etcd://a:1/j")
            with self.assertRaisesRegex(RuntimeError, "NCCL_TUNER_PLUGIN=go-etcd and LD_LIBRARY_PATH=/"):
                enable()

    def test_environment_wins(self):
        self.environment(NCCL_TUNER_PLUGIN="go", NCCL_TUNER_CONFIG_FILE="mine.csv")
        with self.assertWarnsRegex(
            RuntimeWarning,
            "policy=.*/policy.csv has no effect: NCCL_TUNER_CONFIG_FILE is set to 'mine.csv'",
        ) as warned:
            self.assertEqual(enable(policy=pathlib.Path("policy.csv")), {})
        self.assertEqual(warned.filename, __file__)
        self.environment(NCCL_TUNER_PLUGIN="go", NCCL_TUNER_CONFIG_FILE="policy.csv", NCCL_TUNER_STRICT="1")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(enable("policy.csv", strict=True), {})

    def test_another_tuner(self):
        self.environment(NCCL_TUNER_PLUGIN="libnccl-ofi-tuner.so")
        with self.assertRaisesRegex(RuntimeError, "'libnccl-ofi-tuner.so', another tuner"):
            enable()

    def test_a_release_that_takes_no_path(self):
        with mock.patch("importlib.metadata.version", return_value="2.27.3"):
            self.environment()
            with self.assertRaisesRegex(RuntimeError, "NCCL_TUNER_PLUGIN=go and LD_LIBRARY_PATH=/"):
                enable()
            self.environment(NCCL_TUNER_PLUGIN="go")
            self.assertEqual(enable(), {})

    def test_bad_calls_set_nothing(self):
        self.environment()
        with self.assertRaisesRegex(FileNotFoundError, "policy: there is no file .*/none.csv"):
            enable(policy="none.csv")
        with self.assertRaisesRegex(TypeError, r"unknown setting 'polcy' \(allowed: canary, compare, "):
            enable(polcy="policy.csv")
        with mock.patch.dict(sys.modules, torch=torch(True)):
            with self.assertRaisesRegex(RuntimeError, "torch.distributed is initialised already"):
                enable()
        self.assertEqual(dict(os.environ), {})

    def test_torch_not_yet_initialised(self):
        for module in torch(False), types.SimpleNamespace():  # the second is half imported
            self.environment()
            with mock.patch.dict(sys.modules, torch=module):
                self.assertEqual(enable(), {"NCCL_TUNER_PLUGIN": library})

    def test_every_documented_variable_is_a_setting(self):
        text = pathlib.Path(os.environ["VARIABLES"]).read_text()
        named = set(re.findall(r"^\| .NCCL_TUNER_(\w+)", text, re.MULTILINE))
        settings = {name.upper() for name in nccl_tuner_go._OTHERS} | set(nccl_tuner_go._FILES.values())
        # enable sets PLUGIN itself, and PASSES is for sweeps only
        self.assertEqual(named - {"PLUGIN", "PASSES"}, settings)


unittest.main()
