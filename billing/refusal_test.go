package billing

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestRefusalsSayWhatIsMissing: a budget with something left is not called spent, and the figures and the remedy are right: what the
// refusal says would fit does, and one token more does not.
func TestRefusalsSayWhatIsMissing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Zone: "Asia/Shanghai", Limit: 10_000})
		mustRecord(t, l, usage("before", c.now(), Tokens{}, Charge{Cost: 6360, Currency: "CNY"}))
		running := reserve(t, l, "running", 100)

		q := ask("big", 400)
		q.PromptTokens, q.Choices = 40, 2
		_, err := l.Reserve(t.Context(), q)
		wantCode(t, err, fault.CodeOverBudget)
		for lang, want := range map[fault.Lang]string{
			fault.English: "The request does not fit into the monthly budget of tenant 'acme': of 0.00001 CNY, 0.00000636 CNY is spent and 0.000001 CNY is set aside for running requests, " +
				"so 0.00000264 CNY is left; the request could cost up to 0.00000404 CNY (40 prompt tokens at 0.001 CNY and up to 400 completion tokens at 0.01 CNY per million). " +
				"Lower max_tokens to at most 130. The budget begins anew at 2026-12-01 00:00 (Asia/Shanghai); an administrator of the tenant can raise it.",
			fault.Chinese: "请求超出每月预算（租户 'acme'）的余额：上限 0.00001 CNY，已支出 0.00000636 CNY，已预留 0.000001 CNY（用于运行中的请求），剩余 0.00000264 CNY；" +
				"本次请求最多可能花费 0.00000404 CNY（40 个输入 token，每百万 0.001 CNY；最多 400 个输出 token，每百万 0.01 CNY）。" +
				"请将 max_tokens 降至不超过 130。预算将于 2026-12-01 00:00（Asia/Shanghai）重新计算；租户管理员可以提高预算。",
		} {
			if got := fault.Public(err).Message(lang); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		q.MaxCompletion = 2 * 131
		_, err = l.Reserve(t.Context(), q)
		wantCode(t, err, fault.CodeOverBudget)
		q.MaxCompletion = 2 * 130
		r, err := l.Reserve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
		running.Release()

		q.PromptTokens = 4000
		_, err = l.Reserve(t.Context(), q)
		wantSentence(t, err, fault.CodeOverBudget, "No max_tokens fits; shorten the prompt", " 0 CNY is set aside", "0.00000364 CNY is left")
		q.Embed, q.MaxCompletion = true, 0
		_, err = l.Reserve(t.Context(), q)
		wantSentence(t, err, fault.CodeOverBudget, "(4000 tokens at 0.003 CNY per million). Send less text at once.")

		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Zone: "Asia/Shanghai", Limit: 6360})
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = l.Reserve(t.Context(), ask("none", 1))
		wantSentence(t, err, fault.CodeTenantBudget, "The monthly budget of tenant 'acme' is spent: 0.00000636 CNY of 0.00000636 CNY.", "2026-12-01 00:00 (Asia/Shanghai)")
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme", Key: "k1"}, Period: Total, Limit: 0})
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Zone: "Asia/Shanghai", Limit: 1 << 40})
		_, err = l.Reserve(t.Context(), ask("none", 1))
		wantSentence(t, err, fault.CodeKeyBudget, "The total budget of API key 'k1' is spent", "never begins anew")
	})
}

// TestRefusalsNameOtherServersOnlyWhenTheyHaveSome: what another server leases is set aside also for requests that are yet to come there; what
// a former process on this one left behind is for requests that ran.
func TestRefusalsNameOtherServersOnlyWhenTheyHaveSome(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		former, l := replica(t, db, "a", c), replica(t, db, "a", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 10_000})
		refused := func() error {
			_, err := l.Reserve(t.Context(), ask("big", 1001))
			return err
		}
		wantSentence(t, refused(), fault.CodeOverBudget, " 0 CNY is set aside for running requests, so ")
		reserve(t, former, "former", 100)
		wantSentence(t, refused(), fault.CodeOverBudget, " CNY is set aside for running requests, so ")

		other := replica(t, db, "b", c)
		r := reserve(t, other, "there", 100)
		wantSentence(t, refused(), fault.CodeOverBudget, " CNY is set aside for running requests and by other servers, so ")
		r.Release() // nothing runs there any more, and its lease is there still
		wantSentence(t, refused(), fault.CodeOverBudget, " CNY is set aside for running requests and by other servers, so ")
		if err := other.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSentence(t, refused(), fault.CodeOverBudget, " CNY is set aside for running requests, so ")
	})
}

func wantSentence(t *testing.T, err error, code fault.Code, parts ...string) {
	t.Helper()
	wantCode(t, err, code)
	got := fault.Public(err).Message(fault.English)
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%q does not say %q", got, p)
		}
	}
}

func TestMoneyIsWrittenExactly(t *testing.T) {
	for m, want := range map[Money]string{0: "0 X", 1: "0.000000001 X", 1_500_000_000: "1.5 X", 20_000_000_000: "20 X", -10: "-0.00000001 X", 1 << 60: "1152921504.606846976 X"} {
		if got := m.format("X"); got != want {
			t.Errorf("%d: %s, want %s", m, got, want)
		}
	}
}

// TestRemovedBudgetUnderRunningRequests removes a budget on one replica while a request of another runs and a third asks for more of
// it before it has heard: nobody is refused for a budget that is gone, the running request settles, and nothing is left of either. A
// budget that takes its place counts what was used.
func TestRemovedBudgetUnderRunningRequests(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l, other := replica(t, db, "a", c), replica(t, db, "b", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 1000})
		running := reserve(t, l, "running", 50)
		if err := other.DeleteBudget(t.Context(), Scope{Tenant: "acme"}, Month); err != nil {
			t.Fatal(err)
		}
		unheard := reserve(t, l, "unheard", 60) // more than its lease has free, so it asks for a budget that is gone
		unheard.Release()
		tok := Tokens{Completion: 20}
		mustRecord(t, l, usage("running", c.now(), tok, running.Settle(tok)))
		for _, r := range []*Ledger{l, other} {
			if err := errors.Join(r.terms.Refresh(t.Context()), r.tidy(t.Context(), true), r.renew(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if spent, leased := committedNow(t, db); spent != 0 || leased != 0 || len(l.leases)+len(l.retired)+len(l.open) != 0 {
			t.Errorf("left behind: spent %d, leased %d, slices %d and %d, open %d", spent, leased, len(l.leases), len(l.retired), len(l.open))
		}
		setBudget(t, other, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 1000})
		wantBudget(t, l, 200, 0)
	})
}

// TestBudgetPutInPlaceOfARemovedOneHolds: a replica that still knows the removed one is bound by its successor at once.
func TestBudgetPutInPlaceOfARemovedOneHolds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l, other := replica(t, db, "a", c), replica(t, db, "b", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 1000})
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme", Key: "k1"}, Period: Day, Limit: 1000})
		if err := other.DeleteBudget(t.Context(), Scope{Tenant: "acme"}, Month); err != nil {
			t.Fatal(err)
		}
		setBudget(t, other, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 100})
		_, err := l.Reserve(t.Context(), ask("r1", 20))
		wantCode(t, err, fault.CodeOverBudget)
		reserve(t, l, "r2", 10).Release()
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if spent, leased := committedNow(t, db); spent != 0 || leased != 0 {
			t.Errorf("spent %d, leased %d", spent, leased)
		}
	})
}

// TestRemovingWhileRecordingLeavesNothing removes and sets a budget while usage is recorded: no sum stays for a budget that is gone,
// and the one at the end has counted every record once.
func TestRemovingWhileRecordingLeavesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 40 {
				if err := record(context.WithoutCancel(t.Context()), l, usage(id(i), c.now(), Tokens{Completion: 1}, Charge{Cost: 10})); err != nil {
					t.Error(err)
				}
			}
		}()
		for range 10 {
			setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 5})
			if err := l.DeleteBudget(t.Context(), Scope{Tenant: "acme"}, Month); err != nil {
				t.Fatal(err)
			}
		}
		<-done
		if spent, _ := committedNow(t, db); spent != 0 {
			t.Errorf("%d is spent of a budget that is gone", spent)
		}
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 5})
		wantBudget(t, l, 400, 0)
	})
}

// TestRemovalThatFails: an error leaves the budget whole or gone, never in part.
func TestRemovalThatFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		for name, outcome := range map[string]dbtest.Outcome{"before": dbtest.FailsBefore, "after": dbtest.FailsAfter} {
			f := &dbtest.Faults{}
			l := replica(t, f.Over(db), "n", newClock())
			setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 1000})
			reserve(t, l, "r-"+name, 5).Release()
			f.Set(once("commit", outcome))
			wantCode(t, l.DeleteBudget(t.Context(), Scope{Tenant: "acme"}, Month), fault.CodeDatabaseUnavailable)
			f.Set(nil)
			var budgets, leases int64
			if err := errors.Join(db.Model(&budgetRow{}).Count(&budgets).Error, db.Model(&leaseRow{}).Count(&leases).Error); err != nil {
				t.Fatal(err)
			}
			if (budgets == 0) != (outcome == dbtest.FailsAfter) || leases != budgets {
				t.Errorf("%s: %d budgets, %d leases", name, budgets, leases)
			}
			if budgets > 0 {
				if err := l.DeleteBudget(t.Context(), Scope{Tenant: "acme"}, Month); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
