package main

// entry is a variable or a file.
type entry struct {
	name, meaning string
	of            string // the commands that it is about, as topo-links
}

const (
	policies = "show explain diff check profile"
	topo     = "topo topo-explain topo-links topo-graphs topo-tuning"
	live     = "push status gc"
	progress = "sweep fit import compare check profile doctor"
)

// environment are the variables that commands read.
var environment = []entry{
	{"NCCL_TUNER_CONFIG_FILE", "The policy file, where no option names one.", "push explain"},
	{"NCCL_TUNER_MODEL_FILE", "The model, where no option names one.", "push explain"},
	{"NCCL_TUNER_RENDEZVOUS", "Where the ranks meet, without --rendezvous.", live},
	{"NCCL_TUNER_RENDEZVOUS_TRUST", "1: also clean a rendezvous of another owner, or one that others can write to.",
		"gc"},
	{"NCCL_TUNER_*, NCCL_*", "What a job of this environment would have. All of them are examined.", "doctor"},
	{"NCCL_TUNER_TOPO_FILE, NCCL_TOPO_FILE", "The topology, where no file is named.",
		topo},
	{"NCCL_*", "They count as they do in NCCL.", policies + " " + topo},
	{"NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, NCCL_MIN_CTAS, NCCL_MAX_CTAS",
		"Bounds of channels. Runs get them, and jobs must have them, too.", "sweep"},
	{"NCCL_*, NCCL_TUNER_*", "Runs get all but those that would decide for them. The sweep names these.", "sweep"},
	{"PATH", "Where the programs of nccl-tests are, without --perf-dir.", "sweep"},
	{"SLURM_JOB_ID, SLURM_JOB_NODELIST, SLURM_JOB_NUM_NODES", "The allocation that runs are started in.", "sweep"},
	{"SLURMD_NODENAME", "What the site calls this node.", "doctor"},
	{"TERM", "dumb: no progress line.", progress},
	{"TERM", "dumb: --watch prints the text again after each change.", "status"},
	{"GOMEMLIMIT", "Memory that tunefit tries not to exceed, as 4GiB. Default: 800MiB.", "tunefit"},
}

// files are what commands read and write without being told the whole name.
var files = []entry{
	{"DIRECTORY/plan.yaml", "The settings, with which the next call goes on.", "sweep"},
	{"DIRECTORY/journal.jsonl", "What was planned, begun and ended, with commands.", "sweep"},
	{"DIRECTORY/logs/", "What runs printed.", "sweep"},
	{"DIRECTORY/policies/", "The policies of runs, and in fitted.csv the policy as the sweep last wrote it.", "sweep"},
	{"DIRECTORY/topology/, DIRECTORY/topology.xml", "The topology of each node, and of all if they are alike.",
		"sweep"},
	{"DIRECTORY/sweep.csv, model.json, policy.csv, report.html", "The measurements, and what was learnt from them.",
		"sweep"},
	{"DIRECTORY/settings.conf", "The setting that --try found, in the form of nccl.conf.", "sweep"},
	{"DIRECTORY/proof.txt", "What --prove found.", "sweep"},
	{"topology.xml", "Beside a policy or a model: the machine that it was measured on.", policies},
	{"/dev/shm/", "Where ranks of one machine meet, unless NCCL_TUNER_RENDEZVOUS names another place.", live},
	{"~/.nccl.conf, /etc/nccl.conf", "Variables of NCCL.", "doctor"},
	{"/var/run/nvidia-topologyd/virtualTopology.xml", "The topology of a virtual machine.",
		topo + " doctor"},
	{"/sys", "The machine, where no topology is named.", topo + " doctor"},
	{"../share/doc/nccl-tuner-go/", "Beside bin: the users' pages, as docs/SWEEP.md.", "tunefit"},
	{"../share/nccl-tuner-go/", "Beside bin: sample policies and recipes.", "tunefit"},
	{"../lib/libnccl-tuner-go.so", "Beside bin: the tuner library.", "sweep doctor"},
}
