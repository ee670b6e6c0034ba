package provenance

import "github.com/sluice-project/sluice/internal/message"

// translator says texts of the catalogues in the language of a document.
type translator func(id message.ID, args ...any) string

func words(l message.Lang) translator {
	return func(id message.ID, args ...any) string { return message.Say(id, args...).In(l) }
}

func conclusionID(code Conclusion) message.ID {
	return map[Conclusion]message.ID{
		"contradictory": "provenance.conclusion_contradictory",
		"derived":       "provenance.conclusion_derived",
		"hint":          "provenance.conclusion_hint",
		"issued_here":   "provenance.conclusion_issued_here",
		"labelled_away": "provenance.conclusion_labelled_away",
		"labelled_here": "provenance.conclusion_labelled_here",
		"nothing_found": "provenance.conclusion_nothing_found",
		"signed_here":   "provenance.conclusion_signed_here",
		"other_file":    "provenance.conclusion_other_file",
		"other_text":    "provenance.conclusion_other_text",
		"too_little":    "provenance.conclusion_too_little",
		"unchanged":     "provenance.conclusion_unchanged",
		"wording":       "provenance.conclusion_wording",
	}[code]
}

func contradictionID(code Contradiction) message.ID {
	return map[Contradiction]message.ID{
		"altered_label":        "provenance.contradiction_altered_label",
		"altered_signature":    "provenance.contradiction_altered_signature",
		"borrowed_credentials": "provenance.contradiction_borrowed_credentials",
		"borrowed_label":       "provenance.contradiction_borrowed_label",
		"borrowed_sign":        "provenance.contradiction_borrowed_sign",
		"two_requests":         "provenance.contradiction_two_requests",
	}[code]
}

func reasonID(code Reason) message.ID {
	return map[Reason]message.ID{
		"credentials_broken":   "provenance.reason_credentials_broken",
		"credentials_changed":  "provenance.reason_credentials_changed",
		"credentials_no_place": "provenance.reason_credentials_no_place",
		"credentials_none":     "provenance.reason_credentials_none",
		"credentials_own":      "provenance.reason_credentials_own",
		"credentials_other":    "provenance.reason_credentials_other",
		"credentials_passed":   "provenance.reason_credentials_passed",
		"credentials_unjudged": "provenance.reason_credentials_unjudged",
		"credentials_unknown":  "provenance.reason_credentials_unknown",
		"label_bare":           "provenance.reason_label_bare",
		"label_broken":         "provenance.reason_label_broken",
		"label_foreign":        "provenance.reason_label_foreign",
		"label_none":           "provenance.reason_label_none",
		"label_own":            "provenance.reason_label_own",
		"label_unproven":       "provenance.reason_label_unproven",
		"registry_common":      "provenance.reason_registry_common",
		"registry_empty":       "provenance.reason_registry_empty",
		"registry_exact":       "provenance.reason_registry_exact",
		"registry_long":        "provenance.reason_registry_long",
		"registry_no_text":     "provenance.reason_registry_no_text",
		"registry_none":        "provenance.reason_registry_none",
		"registry_off":         "provenance.reason_registry_off",
		"registry_part":        "provenance.reason_registry_part",
		"registry_short":       "provenance.reason_registry_short",
		"registry_unavailable": "provenance.reason_registry_unavailable",
		"registry_weak":        "provenance.reason_registry_weak",
		"signature_bad":        "provenance.reason_signature_bad",
		"signature_bare":       "provenance.reason_signature_bare",
		"signature_cut":        "provenance.reason_signature_cut",
		"signature_gone":       "provenance.reason_signature_gone",
		"signature_key":        "provenance.reason_signature_key",
		"signature_none":       "provenance.reason_signature_none",
		"signature_own":        "provenance.reason_signature_own",
		"signature_read":       "provenance.reason_signature_read",
		"signature_text":       "provenance.reason_signature_text",
		"watermark_found":      "provenance.reason_watermark_found",
		"watermark_keys":       "provenance.reason_watermark_keys",
		"watermark_long":       "provenance.reason_watermark_long",
		"watermark_no_key":     "provenance.reason_watermark_no_key",
		"watermark_no_text":    "provenance.reason_watermark_no_text",
		"watermark_none":       "provenance.reason_watermark_none",
		"watermark_off":        "provenance.reason_watermark_off",
		"watermark_short":      "provenance.reason_watermark_short",
		"watermark_weak":       "provenance.reason_watermark_weak",
		"watermark_gone":       "provenance.reason_watermark_gone",
	}[code]
}

func resultID(code Result) message.ID {
	return map[Result]message.ID{
		"absent":     "provenance.result_absent",
		"cannot_say": "provenance.result_cannot_say",
		"confirmed":  "provenance.result_confirmed",
		"foreign":    "provenance.result_foreign",
		"indicated":  "provenance.result_indicated",
		"partial":    "provenance.result_partial",
		"refuted":    "provenance.result_refuted",
	}[code]
}

func confidenceID(code Confidence) message.ID {
	return map[Confidence]message.ID{
		"comparison":  "provenance.confidence_comparison",
		"declaration": "provenance.confidence_declaration",
		"none":        "provenance.confidence_none",
		"public_key":  "provenance.confidence_public_key",
		"secret_key":  "provenance.confidence_secret_key",
		"statistics":  "provenance.confidence_statistics",
	}[code]
}

func limitID(code string) message.ID {
	return map[string]message.ID{
		"changes":     "provenance.limits_changes",
		"credentials": "provenance.limits_credentials",
		"label":       "provenance.limits_label",
		"person":      "provenance.limits_person",
		"registry":    "provenance.limits_registry",
		"truth":       "provenance.limits_truth",
		"watermark":   "provenance.limits_watermark",
	}[code]
}

func markID(code string) message.ID {
	return map[string]message.ID{
		"credentials": "provenance.mark_credentials",
		"label":       "provenance.mark_label",
		"registry":    "provenance.mark_registry",
		"signature":   "provenance.mark_signature",
		"watermark":   "provenance.mark_watermark",
	}[code]
}
