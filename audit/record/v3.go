package record

// eventV3 is the canonical encoding, version 3: what version 2 has, and behind it what version 3 adds. It never changes either.
type eventV3 struct {
	eventV2

	LabelKey string  `json:"label_key,omitempty"`
	Steps    stepsV3 `json:"steps,omitzero"`
}

type stepsV3 struct {
	Authenticate int64 `json:"authenticate,omitempty"`
	Limit        int64 `json:"limit,omitempty"`
	Policy       int64 `json:"policy,omitempty"`
	Route        int64 `json:"route,omitempty"`
	Reserve      int64 `json:"reserve,omitempty"`
	Retrieve     int64 `json:"retrieve,omitempty"`
	Record       int64 `json:"record,omitempty"`
	Prefill      int64 `json:"prefill,omitempty"`
	Decode       int64 `json:"decode,omitempty"`
}

func fromV3(v eventV3) Event {
	e := fromV2(v.eventV2)
	e.LabelKey, e.Steps = v.LabelKey, Steps(v.Steps)
	return e
}
