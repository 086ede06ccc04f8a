package agree

import "testing"

// The keys of records are what ranks of other releases read, so none may change. ParseKey is their inverse.
func TestKeys(t *testing.T) {
	t.Parallel()
	const c = keys("000000000000002a-2")
	none := Key{}
	for key, want := range map[string]struct {
		made string
		Key
	}{
		"c/000000000000002a-2/init":                     {c.dir(kindInit), Key{kind: kindInit}},
		"c/000000000000002a-2/name":                     {c.dir(kindName), Key{kind: kindName}},
		"c/000000000000002a-2/known":                    {c.dir(kindKnown), Key{kind: kindKnown}},
		"c/000000000000002a-2/slot/0":                   {c.slot(0), Key{kind: kindSlot}},
		"c/000000000000002a-2/left/12":                  {c.left(12), Key{kind: kindLeft, number: 12}},
		"c/000000000000002a-2/note/3":                   {c.note(3), Key{kind: kindNote, number: 3}},
		"c/000000000000002a-2/why/4":                    {c.detail(4), Key{kind: kindDetail, number: 4}},
		"c/000000000000002a-2/d/5.commit.77.2":          {c.decision(5, Decision{Commit: true, At: 77, By: 1}), Key{kind: kindDecision, number: 5}},
		"c/000000000000002a-2/d/5.cannot-stage.0.0":     {c.decision(5, Decision{Abort: CannotStage, By: -1}), Key{kind: kindDecision, number: 5}},
		"c/000000000000002a-2/a/6/0.3-00000000000000ff": {c.ack(6, 255, 0, 3), Key{kind: kindAck, number: 6}},
		"c/000000000000002a-2/m/7/1-0000000000000001":   {c.arrival(7, 1, 1), Key{kind: kindArrival, number: 7}},
		"c/000000000000002a-2/t/8/af63dc4c8601ec8c":     {c.token(8, "a"), Key{kind: kindToken, number: 8}},
		"c/000000000000002a-2/v/9/abc": {VersionID{Content: "abc", Dir: c.of(kindContent, 9)}.Key(),
			Key{kind: kindContent, number: 9}},
		"p/000000000000002a-2.10":    {c.proposal(10), Key{kind: kindProposal, number: 10}},
		"open/000000000000002a-2.11": {c.open(11), Key{kind: kindOpen, number: 11}},
		"blob/abc":                   {VersionID{Content: "abc"}.Key(), none},
		"ended/000000000000002a-2":   {c.ended(), none},

		// Records that no release has made.
		"c/000000000000002a-2/slot/x":  {Key: none},
		"c/000000000000002a-2/slot/-1": {Key: none},
		"c/000000000000002a-2/slot":    {Key: none},
		"c/000000000000002a-2/a/6":     {Key: none},
		"c/000000000000002a-2/other":   {Key: none},
		"p/000000000000002a-2":         {Key: none},
		"":                             {Key: none},
	} {
		if want.made != "" && want.made != key {
			t.Errorf("the key is %s, want %s", want.made, key)
		}
		got, ok := ParseKey(key)
		switch {
		case ok != (want.Key != none):
			t.Errorf("%s: a communicator's record: %v", key, ok)
		case ok && (got.Comm != string(c) || got.kind != want.kind || got.number != want.number):
			t.Errorf("%s is parsed as %+v", key, got)
		}
	}
}

// So must the values of records stay what they are.
func TestRecords(t *testing.T) {
	t.Parallel()
	v := VersionID{Content: "c", EffectDigest: "m"}
	proposed := VersionID{Content: "c", EffectDigest: "m", Dir: "c/x/v/1"}
	for want, record := range map[string]any{
		`{"content":"c","meaning":"m"}`: v,
		`{"content":"c","meaning":"m","dir":"c/x/v/1","check":1,"switch":2,"slot":3,"tag":"t","token":"k"}`: Proposal{
			VersionID: proposed, Check: 1, Switch: 2, Slot: 3, Tag: "t", Token: "k"},
		`{"content":"","meaning":"","check":0,"switch":0,"slot":0,"tag":"","token":"","freeze":true}`: Proposal{Freeze: true},
	} {
		if got := string(encode(record)); got != want {
			t.Errorf("the record is %s, want %s", got, want)
		}
	}
}
