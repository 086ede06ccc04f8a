package identity

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest identifies what a policy, a model or both together mean: 128 bits of a SHA-256. It is that short because the
// ranks' record of their first version has to fit into an inode: a disk may be full. Conditions and models may compute
// other last bits on another processor, so the kind of processor is part of their meaning.
type Digest [16]byte

// DigestOf returns the digest of a text.
func DigestOf(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:len(Digest{})])
}

// String returns the first 12 hexadecimal digits, enough to tell versions apart.
func (d Digest) String() string { return hex.EncodeToString(d[:6]) }

// Full returns all hexadecimal digits; String's are the first of them.
func (d Digest) Full() string { return hex.EncodeToString(d[:]) }
