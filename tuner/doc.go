// Package tuner is the plugin inside an NCCL process. A Plugin is what the process's
// communicators share. Its Open reads the settings, the policy file and the model file
// when NCCL creates a communicator; the Comm answers for it until NCCL destroys it, and
// says through NCCL's logger what it does.
//
// It knows nothing of C. Package main in tuner/plugin is the ABI around it.
//
// docs/ARCHITECTURE.md follows a decision and an edit through it, docs/LIVE.md describes
// edits for users, docs/NCCL.md what NCCL does with a tuner.
package tuner
