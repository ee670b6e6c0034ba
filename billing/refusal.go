package billing

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// refusal says why a budget refuses a request: that it is spent, or that it has left less than the request could cost, and what
// would fit. The figures are those of the budget that covers the caller, and of no other.
func (r *Reservation) refusal(b *budget, ask Ask, short *shortage) error {
	if b.scope.Organisation != "" { // its figures would tell what other tenants spend
		return fault.New(fault.CodeOrganisationBudget, b.period.adjective(), b.scope.name(), b.renewalNotice(ask.At))
	}
	currency := r.quote.Currency
	spent, limit := short.spent.format(currency), short.limit.format(currency)
	if short.spent >= short.limit {
		code := fault.CodeTenantBudget
		if b.scope.Key != "" || b.scope.Project != "" {
			code = fault.CodeKeyBudget
		}
		return fault.New(code, b.period.adjective(), b.scope.name(), spent, limit, b.renewalNotice(ask.At))
	}
	return fault.New(fault.CodeOverBudget, b.period.adjective(), b.scope.name(), limit, spent, short.leased.format(currency), short.reservedFor(), short.remaining().format(currency),
		r.worstCase.format(currency), r.worstCaseBasis(ask), r.remedy(ask, short.remaining()), b.renewalNotice(ask.At))
}

// reservedFor says what the leased amounts are for. A server leases part of a budget ahead of its requests.
func (s *shortage) reservedFor() fault.Phrase {
	if s.sharedWithServers {
		return fault.Say("billing.for_running_elsewhere")
	}
	return fault.Say("billing.for_running")
}

// worstCaseBasis says how the worst case is computed.
func (r *Reservation) worstCaseBasis(ask Ask) fault.Phrase {
	prompt := perMillion(max(r.rate.Prompt, r.rate.Cached), r.quote.Currency)
	if ask.Embed {
		return fault.Say("billing.one_rate", ask.PromptTokens, prompt)
	}
	return fault.Say("billing.split_rates", ask.PromptTokens, prompt, ask.MaxCompletion, perMillion(r.rate.Completion, r.quote.Currency))
}

// remedy says what the caller can do himself.
func (r *Reservation) remedy(ask Ask, left Money) fault.Phrase {
	if ask.Embed {
		return fault.Say("billing.send_less")
	}
	prompt, _ := r.rate.Worst(ask.PromptTokens, 0) // the whole was in range
	if room := int64(left) - prompt; room > 0 && r.rate.Completion > 0 {
		if fits := room / r.rate.Completion / max(1, ask.Choices); fits > 0 {
			return fault.Say("billing.lower_max_tokens", fits)
		}
	}
	return fault.Say("billing.shorten_prompt")
}

// adjective returns the period as an adjective of its budget.
func (p Period) adjective() fault.Phrase {
	switch p {
	case Day:
		return fault.Say("billing.daily")
	case Month:
		return fault.Say("billing.monthly")
	case Total:
	}
	return fault.Say("billing.total")
}

// renewalNotice says when the next period of the budget begins.
func (b *budget) renewalNotice(at time.Time) fault.Phrase {
	if b.period == Total {
		return fault.Say("billing.budget_total")
	}
	_, to := b.period.bounds(at, b.loc)
	return fault.Say("billing.budget_renewal", time.UnixMicro(to).In(b.loc).Format("2006-01-02 15:04"), b.zone)
}

// format writes an amount exactly, with its currency: "0.00001 CNY".
func (m Money) format(currency string) string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	text := fmt.Sprintf("%s%d.%09d", sign, m/1e9, m%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " " + currency
}

// perMillion writes the price of a million tokens from that of one.
func perMillion(unit int64, currency string) string { return Money(unit * 1_000_000).format(currency) }
