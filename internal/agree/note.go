package agree

import "context"

// PublishStatus replaces the note on the communicator that slot 0 keeps for tools. No member reads it. One goroutine
// may call PublishStatus at a time, before Close.
func (m *Member) PublishStatus(ctx context.Context, value []byte) error {
	ctx, end := withLimit(ctx, m.cfg.Clock, m.cfg.Timing.OpLimit)
	defer end()
	_, err := m.cfg.Store.PutOnce(ctx, m.keys.note(m.notes+1), value)
	if err != nil {
		return err
	}
	if m.notes > 0 {
		_ = m.cfg.Store.Remove(ctx, m.keys.note(m.notes)) // a leftover only takes space
	}
	m.notes++
	return nil
}
