package sched

import (
	"math"
	"time"
)

// How the fit behaves. Residuals are relative: measured ÷ predicted − 1.
const (
	forgettingFactor = 0.99 // weight of a step relative to the next one's: about the latest hundred count
	hold             = 0.02 // pull of a coefficient to where it was, relative to what a hundred steps told about it
	outlier          = 5.0  // times the usual residual: a pause, a noisy neighbour
	outlierRun       = 3    // so many on one side in a row are no accident: the machine has changed
	minScatter       = 0.02 // the usual residual is taken as at least this
	positions        = 1000 // unit of the context coefficient inside the fit, so that the coefficients are of one order

	maxExtra = 1 // a row that is sampled costs at most so much more than one that is not

	latenessWindow  = 256  // steps the lateness is taken from
	latenessSamples = 32   // from so many on it is believed
	defaultLateness = 1000 // before, microseconds
)

// fit estimates t ≈ Step + Decode·d + Prefill·p + Context·c online: least squares of the relative residuals, with forgetting, without
// negative coefficients. It is recursive least squares in its information form, which keeps the sums of products instead of their
// inverse: so coefficients that have no evidence (no prompt for an hour) can be held where they were instead of drifting with the noise.
type fit struct {
	theta       [4]float64    // microseconds
	info        [4][4]float64 // Σ weight · x xᵀ
	rhs         [4]float64    // Σ weight · x y
	maxObserved [4]float64    // largest diagonals of info lately
	scatter     float64       // usual size of a residual
	run         int           // outliers in a row: positive of long steps, negative of short ones
	steps       int
	outliers    int
	late        window // measured − predicted, of steps in which something decodes, in microseconds
}

func newFit(prior Coefficients) fit {
	f := fit{
		theta:   [4]float64{prior.Step, prior.Prefill, max(0, prior.Decode-prior.Prefill), prior.Context * positions},
		scatter: 0.1,
		late:    newWindow(latenessWindow),
	}
	return f
}

// begin takes the first step as telling how fast this machine is against that of the prior, so that a prior for another machine still
// has the proportions right, and the proportions as a twentieth of what a usual step tells.
func (f *fit) begin(ratio float64) {
	usual := Load{Decode: 4, Prefill: 16, Context: 2 * positions}
	for i := range f.theta {
		f.theta[i] *= ratio
	}
	all := f.predict(usual)
	for i, x := range features(usual) {
		f.info[i][i] = 0.05 * (x / all) * (x / all)
		f.maxObserved[i] = f.info[i][i]
		f.rhs[i] = f.info[i][i] * f.theta[i]
	}
}

func features(l Load) [4]float64 {
	return [4]float64{1, float64(l.Decode + l.Prefill + l.Drafts), float64(l.Decode), float64(l.Context) / positions}
}

// predict returns microseconds.
func (f *fit) predict(l Load) float64 {
	var t float64
	for i, x := range features(l) {
		t += f.theta[i] * x
	}
	return max(t, 1)
}

func (f *fit) coefficients() Coefficients {
	return Coefficients{Step: f.theta[0], Decode: f.theta[1] + f.theta[2], Prefill: f.theta[1], Context: f.theta[3] / positions}
}

// lateness returns how many microseconds later than predicted 99 in 100 steps come at most. It is a time and no factor, since what makes
// steps late (the collector, neighbours, the kernel) takes as long whatever the step carries.
func (f *fit) lateness() float64 {
	if f.late.len() < latenessSamples {
		return max(defaultLateness, f.late.p99())
	}
	return max(0, f.late.p99())
}

func (f *fit) observe(l Load, took time.Duration) {
	if l.Rows() <= 0 || took <= 0 {
		return
	}
	y := float64(took) / float64(time.Microsecond)
	if f.steps++; f.steps == 1 {
		f.begin(min(max(y/f.predict(l), 1e-4), 1e4))
	}
	predicted := f.predict(l)
	if l.Decode > 0 {
		f.late.add(y - predicted)
	}
	if f.isOutlier(y/predicted - 1) {
		return
	}
	// A step counts by its relative error, since machines are late in proportion. Far from the truth its own time is the better measure.
	unit := min(max(predicted, y/4), y*4)
	x := features(l)
	for i := range x {
		x[i] /= unit
	}
	y /= unit
	for i := range x {
		for j := range x {
			f.info[i][j] = forgettingFactor*f.info[i][j] + x[i]*x[j]
		}
		f.rhs[i] = forgettingFactor*f.rhs[i] + x[i]*y
		f.maxObserved[i] = max(f.info[i][i], 0.9999*f.maxObserved[i])
	}
	f.solve()
}

// isOutlier tells single outliers, which say nothing about the machine, from a run of them: then what was learned before counts little
// any more.
func (f *fit) isOutlier(residual float64) bool {
	size := math.Abs(residual)
	far := size > outlier*f.scatter
	f.scatter = max(minScatter, f.scatter+(min(size, 4*f.scatter)-f.scatter)/32)
	if !far {
		f.run = 0
		return false
	}
	f.outliers++
	if residual > 0 {
		f.run = max(f.run, 0) + 1
	} else {
		f.run = min(f.run, 0) - 1
	}
	if max(f.run, -f.run) < outlierRun {
		return true
	}
	for i := range f.info {
		for j := range f.info {
			f.info[i][j] /= 4
		}
		f.rhs[i] /= 4
	}
	f.late.clear()
	return false
}

// solve minimises the sum of squares plus the pull to where the coefficients were, coordinate by coordinate, none below zero.
func (f *fit) solve() {
	before := f.theta
	for range 50 {
		var moved float64
		for i := range f.theta {
			pull := hold * f.maxObserved[i]
			sum := f.rhs[i] + pull*before[i]
			for j := range f.theta {
				if j != i {
					sum -= f.info[i][j] * f.theta[j]
				}
			}
			next := max(0, sum/(f.info[i][i]+pull))
			if i == 2 {
				next = min(next, maxExtra*f.theta[1])
			}
			moved = max(moved, math.Abs(next-f.theta[i])/(1+next))
			f.theta[i] = next
		}
		if moved < 1e-6 {
			return
		}
	}
}
