// Package tuner is the plugin's life inside an NCCL process: it reads the
// settings and the policy file when NCCL creates a communicator, answers for
// that communicator until NCCL destroys it, and says through NCCL's logger what
// it does.
//
// It knows nothing of C. Package main in tuner/plugin is the ABI around it.
package tuner
