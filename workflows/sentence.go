package workflows

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// The sentences of a rollout. What is stored are codes and figures; here they become words, in the language of whoever reads them.

// CheckState is how one check stands.
type CheckState string

// The states of a check. A step is left when every check holds.
const (
	Holds         CheckState = "holds"
	Broken        CheckState = "broken"
	Unproven      CheckState = "unproven"
	TooLittleData CheckState = "too_little_data"
)

// State says how the check c of d stands, by the error probabilities of the verdict itself.
func (d Decision) State(c Check, th Thresholds) CheckState {
	few := d.Stable != nil && d.Candidate != nil && min(d.Stable.Requests, d.Candidate.Requests) < th.MinRequests
	switch {
	case c.Worse <= th.AbortShare():
		return Broken
	case few, c.Latency() && (c.Stable == 0 || c.Candidate == 0):
		return TooLittleData
	case c.Holds <= th.PromoteAlpha:
		return Holds
	}
	return Unproven
}

// Latency reports whether the check compares latencies. A latency of zero means that there are no samples.
func (c Check) Latency() bool { return c.Name == firstTokenLatency || c.Name == totalLatency }

// Limit is the value the candidate must not exceed; false while stable has none to compare with.
func (c Check) Limit(th Thresholds) (float64, bool) {
	switch c.Name {
	case errorRateCap:
		return th.MaxErrorRate, true
	case errorRate:
		return min(c.Stable+th.ErrorMargin, 1), true
	}
	return max(c.Stable*th.LatencyRatio, c.Stable+th.LatencyFloor.Seconds()), c.Stable > 0
}

// Title names what the check compares.
func (c Check) Title(th Thresholds) fault.Phrase {
	quantile := "P" + strconv.FormatFloat(th.Quantile*100, 'f', -1, 32)
	switch c.Name {
	case errorRateCap:
		return fault.Say("error rate", "错误率")
	case errorRate:
		return fault.Say("error rate against stable", "错误率（相对稳定版）")
	case firstTokenLatency:
		return fault.Say("time to first token (%s)", "首 token 时延（%s）", quantile)
	default:
		return fault.Say("duration (%s)", "总时延（%s）", quantile)
	}
}

// LimitText says the limit in words, with its number.
func (c Check) LimitText(th Thresholds) fault.Phrase {
	limit, known := c.Limit(th)
	switch {
	case c.Name == errorRateCap:
		return fault.Say("at most %s, whatever stable does", "不超过 %s，与稳定版无关", percent(limit))
	case c.Name == errorRate:
		return fault.Say("at most %s points above stable (%s)", "最多比稳定版高 %s 个百分点（%s）", points(th.ErrorMargin), percent(limit))
	case !known:
		return fault.Say("at most %s times stable, or %s more", "最多为稳定版的 %s 倍，或慢 %s", decimal(th.LatencyRatio), floor(th))
	case c.Stable*th.LatencyRatio < c.Stable+th.LatencyFloor.Seconds():
		return fault.Say("at most %s more than stable (%s)", "最多比稳定版慢 %s（%s）", floor(th), millis(limit))
	}
	return fault.Say("at most %s times stable (%s)", "最多为稳定版的 %s 倍（%s）", decimal(th.LatencyRatio), millis(limit))
}

// Proof says in words what the p-value that counts for the state of the check means.
func (d Decision) Proof(c Check, th Thresholds) fault.Phrase {
	switch d.State(c, th) {
	case Broken:
		return fault.Say("the limit is broken: a candidate within it would look this bad by chance in at most %s of rollouts", "已超出上限：若实际未超限，数据差到这种程度的概率不超过 %s", chance(c.Worse))
	case Holds:
		if c.Name == errorRateCap {
			return fault.Say("below the limit; the proof is the comparison with stable", "低于上限；是否可靠由与稳定版的对比证明")
		}
		return fault.Say("proven: a candidate beyond the limit would look this good by chance in at most %s of rollouts", "已证明：若实际已超限，数据好到这种程度的概率不超过 %s", chance(c.Holds))
	case TooLittleData:
		if enough(d, th) {
			return fault.Say("no latency was measured for one of the versions", "其中一个版本没有时延样本")
		}
		return fault.Say("too little data, %s of each version needed", "数据不足，每个版本需要 %s", requests(th.MinRequests))
	case Unproven:
		if c.Name == errorRateCap {
			return fault.Say("above the limit, on too few requests to call it broken", "高于上限，但请求数尚不足以判定超限")
		}
	}
	return fault.Say("not proven yet to hold: a candidate beyond the limit would look this good by chance in up to %s of rollouts, at most %s is accepted",
		"尚未证明在上限以内：若实际已超限，数据好到这种程度的概率可达 %s，须不超过 %s", chance(c.Holds), chance(th.PromoteAlpha))
}

func enough(d Decision, th Thresholds) bool {
	return d.Stable == nil || d.Candidate == nil || min(d.Stable.Requests, d.Candidate.Requests) >= th.MinRequests
}

// Sentence says why the verdict is what it is. A decision of an earlier release has no counts; its sentence has none either.
func (d Decision) Sentence(th Thresholds) fault.Phrase {
	for _, c := range d.Checks {
		if c.Name == d.Code {
			return fault.Say("%s: candidate %s, stable %s, allowed is %s; %s", "%s：候选版 %s，稳定版 %s；上限：%s；%s",
				c.Title(th), c.value(c.Candidate), c.value(c.Stable), c.LimitText(th), d.Proof(c, th))
		}
	}
	switch d.Code {
	case "":
		return fault.Say("not judged yet", "尚未评判")
	case "thresholds":
		field, want := th.problem()
		return fault.Say("the threshold %s %s", "阈值 %s %s", field, want)
	case "evidence":
		return fault.Say("the evidence contradicts itself", "证据自相矛盾")
	case unavailableEvidence:
		return fault.Say("the evidence cannot be read", "无法读取证据")
	}
	baseline := d.Candidate == nil
	switch {
	case d.Stable == nil && d.Code == tooFewRequests:
		return fault.Say("too few requests to judge", "请求数量不足，暂不评判")
	case d.Stable == nil && d.Code == "healthy":
		return fault.Say("every limit is proven to hold", "已证明所有指标均在上限以内")
	case d.Stable == nil:
		return fault.Say("the stable version itself fails too often to be compared with", "稳定版本身错误过多，无法作为比较基准")
	case d.Code == tooFewRequests && baseline:
		return fault.Say("%s of stable, %s needed", "稳定版 %s，需要 %s 个", requests(d.Stable.Requests), number(th.MinRequests))
	case d.Code == tooFewRequests:
		return fault.Say("%s of stable and %s of the candidate, %s of each needed", "稳定版 %s，候选版 %s，各需 %s 个",
			requests(d.Stable.Requests), requests(d.Candidate.Requests), number(th.MinRequests))
	case d.Code == "healthy" && baseline:
		return fault.Say("the baseline stands on %s", "基线已有 %s作依据", requests(d.Stable.Requests))
	case d.Code == "healthy":
		return fault.Say("every limit is proven to hold on %s of the candidate", "候选版的 %s已证明所有指标均在上限以内", requests(d.Candidate.Requests))
	}
	return fault.Say("stable itself fails %s of its requests, above the cap of %s", "稳定版本身有 %s 的请求失败，高于 %s 的上限",
		percent(d.Stable.rate()), percent(th.MaxErrorRate))
}

// Cause says why the system made a transition: a code, and the verdict or the refusal it rests on. Where a person acted there is
// none, and the reason is the person's own.
type Cause struct {
	Code     string    `json:"code"`
	Decision *Decision `json:"decision,omitempty"`
	// English and Chinese are the refusal in both languages; English alone is a text of the machinery's.
	English string `json:"english,omitempty"`
	Chinese string `json:"chinese,omitempty"`
}

// The codes of causes. They are part of stored transitions.
const (
	causeVerdict    = "verdict"
	causeDeadline   = "deadline"
	causeCancelled  = "cancelled"
	causeSuperseded = "superseded"
	causeRefused    = "refused"
	causeStopped    = "stopped"
)

// Sentence says the cause in words.
func (c Cause) Sentence(th Thresholds) fault.Phrase {
	var d Decision
	if c.Decision != nil {
		d = *c.Decision
	}
	switch c.Code {
	case causeVerdict:
		return d.Sentence(th)
	case causeDeadline:
		return fault.Say("the deadline of the step passed: %s", "本步已到期限：%s", d.Sentence(th))
	case causeCancelled:
		return fault.Say("the workflow was cancelled", "工作流被取消")
	case causeSuperseded:
		return fault.Say("the assignment of the model was changed outside of this rollout", "模型的流量分配在本次灰度发布之外被更改")
	case causeRefused:
		return fault.Say("the assignment was refused: %s", "流量分配被拒绝：%s", fault.Say(c.English, or(c.Chinese, c.English)))
	}
	return fault.Say("the rollout stopped: %s", "灰度发布已停止：%s", c.English)
}

func (c Check) value(v float64) any {
	switch {
	case !c.Latency():
		return percent(v)
	case v == 0:
		return fault.Say("no samples", "无样本")
	}
	return millis(v)
}

// percent writes a ratio with at most two decimals.
func percent(ratio float64) string { return points(ratio) + "%" }

func points(ratio float64) string { return decimal(ratio * 100) }

func decimal(v float64) string { return trim(strconv.FormatFloat(v, 'f', 2, 64)) }

func trim(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// chance writes a probability as a bound on it: two significant digits, rounded up. No bound that can be set is smaller than the least.
func chance(p float64) string {
	p = max(p, leastAlpha)
	digits := 1 - int(math.Floor(math.Log10(p))) // behind the point, of a share of one
	scale := math.Pow10(digits)
	p = math.Ceil(p*scale-1e-6) / scale
	text := strconv.FormatFloat(p*100, 'f', max(0, digits-2), 64)
	if strings.Contains(text, ".") {
		text = trim(strings.TrimRight(text, "0"))
	}
	return text + "%"
}

// leastAlpha is the smallest probability that the limits of a rollout may name.
const leastAlpha = 1e-6

// millis writes seconds as milliseconds with three significant digits at least.
func millis(seconds float64) string {
	ms := seconds * 1000
	if ms >= 100 {
		return number(int64(math.Round(ms))) + " ms"
	}
	return decimal(ms) + " ms"
}

func floor(th Thresholds) string { return millis(th.LatencyFloor.Round(time.Microsecond).Seconds()) }

func requests(n int64) fault.Phrase {
	if n == 1 {
		return fault.Say("1 request", "1 个请求")
	}
	return fault.Say("%s requests", "%s 个请求", number(n))
}

// number groups the digits by three.
func number(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
