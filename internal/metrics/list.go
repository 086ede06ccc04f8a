// Package metrics lists this project's metrics for Prometheus, and writes them in Prometheus' text format. The
// library writes files for node_exporter's textfile collector. tunefit prints.
//
// Labels that NCCL's inspector has in its files for Prometheus have its names here, too
// (inspector_prom.cc of NCCL 2.30.7): slurm_job_id, node, n_nodes, nranks.
package metrics

// Metric is one metric. Its name begins with nccl_tuner_.
type Metric struct {
	Name   string
	Kind   string // counter, gauge or summary
	Help   string
	Labels []string // besides those of the page
}

// ofComm are the labels of a communicator in the library's files. The first is its number in the
// process, from 1 on, since a process may have several ranks of one communicator, and NCCL before
// 2.28.3 tells no ids.
func ofComm(more ...string) []string {
	return append([]string{"comm", "comm_id", "n_nodes", "nranks"}, more...)
}

// What the library writes.
var (
	Info          = Metric{"nccl_tuner_info", "gauge", "1; which release of the library runs.", []string{"release"}}
	Updated       = Metric{"nccl_tuner_updated_timestamp_seconds", "gauge", "When the process wrote this file.", nil}
	Communicators = Metric{"nccl_tuner_communicators", "gauge", "Communicators that are open in the process.", nil}
	Errors        = Metric{"nccl_tuner_policy_errors_total", "counter",
		"Times that the policy or the model was read and something was wrong with it.", nil}
	Refused = Metric{"nccl_tuner_policy_refused", "gauge",
		"1 while the process refuses its policy or model, else 0.", nil}

	Version = Metric{"nccl_tuner_version_info", "gauge", "1; the version of the policy that is active.",
		ofComm("policy_version", "policy", "model")}
	Calls = Metric{"nccl_tuner_calls_total", "counter",
		"Calls of NCCL that were decided, by a row, the model or NCCL.", ofComm()}
	CallsByDecider = Metric{"nccl_tuner_hits_total", "counter", "The same calls by what decided them: " +
		"row, model, nccl.",
		ofComm("decided_by")}
	LastCall = Metric{"nccl_tuner_last_call_timestamp_seconds", "gauge",
		"When the process last noticed, as it wrote this file, that calls had been decided; 0: never.", ofComm()}
	Silent       = Metric{"nccl_tuner_silent", "gauge", "1; why nothing but NCCL can decide.", ofComm("reason")}
	Unchangeable = Metric{"nccl_tuner_unchangeable", "gauge",
		"1; why an edit of the policy does not reach the communicator.", ofComm("reason")}
	Pending = Metric{"nccl_tuner_change_pending", "gauge",
		"1 while an edit is known that is not active yet, else 0.", ofComm()}
	Changes = Metric{"nccl_tuner_changes_total", "counter",
		"Changes of the policy in the communicators of the process, by outcome: committed, or refused and why.",
		[]string{"outcome", "reason"}}
	ChangeTime = Metric{"nccl_tuner_change_seconds", "summary",
		"Time from an edit of this rank's file to the first call that it decides.", nil}

	CallsByRow = Metric{"nccl_tuner_row_hits_total", "counter",
		"Calls that a row of the policy decided, in all communicators of the process.", []string{"row"}}
)

// What a comparison of two versions has found out by now, in the process that compares.
var (
	StepTime = Metric{"nccl_tuner_step_time_ratio", "gauge",
		"Time of steps by the version / by the other (against; nothing: NCCL's default); bound: mean, or low and " +
			"high of the 95 % interval.",
		ofComm("policy_version", "against", "bound")}
	StepPairs = Metric{"nccl_tuner_comparison_pairs", "gauge",
		"Pairs of blocks that are compared; state: running, or why the comparison has ended.", ofComm("state")}
)

// Library are all metrics of the library's files, in their order there.
var Library = []Metric{Info, Updated, Communicators, Errors, Refused, Version, Calls, CallsByDecider, LastCall, Silent,
	Unchangeable, Pending, Changes, ChangeTime, CallsByRow, StepTime, StepPairs}

// ofRecords are the labels of a communicator, which come from the ranks' records.
func ofRecords(more ...string) []string {
	return append([]string{"rendezvous", "comm_id", "nranks"}, more...)
}

// What tunefit status prints.
var (
	StatusVersion = Metric{"nccl_tuner_status_version_info", "gauge",
		"1; the version of the policy that was committed last.", ofRecords("policy_version", "policy", "model")}
	StatusSince = Metric{"nccl_tuner_status_version_timestamp_seconds", "gauge",
		"When that version was committed, or the communicator began. Not over etcd, where times are not known.",
		ofRecords()}
	StatusRanks = Metric{"nccl_tuner_status_ranks", "gauge",
		"Ranks of the communicator by state: running, stopped, dead, unknown (on another machine), left (has ended " +
			"it), missing (has not joined).", ofRecords("state")}
	StatusPending = Metric{"nccl_tuner_status_change_pending", "gauge",
		"1 while a change is proposed and not decided, else 0.", ofRecords()}
	StatusMissing = Metric{"nccl_tuner_status_change_unacknowledged_ranks", "gauge",
		"Ranks that have not acknowledged the pending change.", ofRecords()}
	StatusFrozen = Metric{"nccl_tuner_status_frozen", "gauge",
		"1 if the communicator keeps its version for good, else 0.", ofRecords()}
	StatusRefused = Metric{"nccl_tuner_status_policy_refused", "gauge",
		"1 while ranks refuse their policy or model, else 0.", ofRecords()}
	StatusChanges = Metric{"nccl_tuner_status_changes", "gauge",
		"Changes that were committed or refused, and why, of those whose records are there: the last ones and the " +
			"one that brought the active version.", ofRecords("outcome", "reason")}
	StatusComparing = Metric{"nccl_tuner_status_comparing", "gauge",
		"1 while the communicator compares two versions, else 0. Only where the job is to compare.", ofRecords()}
	StatusFaults = Metric{"nccl_tuner_status_record_errors", "gauge",
		"Records of the communicator that cannot be read.", ofRecords()}
	StatusUnseen = Metric{"nccl_tuner_status_unseen", "gauge",
		"Folders that could not be looked at; the communicators of jobs there are not in this list.", nil}
)

// Status are all metrics of tunefit status, in their order there.
var Status = []Metric{StatusVersion, StatusSince, StatusRanks, StatusPending, StatusMissing, StatusFrozen,
	StatusRefused, StatusChanges, StatusComparing, StatusFaults, StatusUnseen}
