package simulate

// The mutations: each breaks one thing of a dialect, and names the conformance cases one of which has to find it.
const (
	MutateHealth         Mutation = "health-500"
	MutateFlap           Mutation = "health-flaps"
	MutateModels         Mutation = "models-empty"
	MutateContext        Mutation = "context-zero"
	MutateUsageMissing   Mutation = "usage-missing"
	MutateUsageWrong     Mutation = "usage-wrong"
	MutateFinish         Mutation = "finish-unknown"
	MutateDone           Mutation = "done-missing"
	MutateStreamUsage    Mutation = "stream-usage-missing"
	MutateStreamFinish   Mutation = "stream-finish-missing"
	MutateStreamJSON     Mutation = "stream-no-json"
	MutateToolsText      Mutation = "tools-as-text"
	MutateToolArguments  Mutation = "tool-arguments-broken"
	MutateReasoning      Mutation = "reasoning-in-content"
	MutateFormat         Mutation = "format-ignored"
	MutateLogprobs       Mutation = "logprobs-missing"
	MutateSeed           Mutation = "seed-ignored"
	MutateSampling       Mutation = "sampling-ignored"
	MutateErrorStatus    Mutation = "errors-500"
	MutateErrorAccepted  Mutation = "errors-accepted"
	MutateCancel         Mutation = "cancel-ignored"
	MutateMetricName     Mutation = "metric-renamed"
	MutateMetricUnit     Mutation = "metric-unit"
	MutateMetricPage     Mutation = "metrics-page-404"
	MutateMetricFrozen   Mutation = "metrics-frozen"
	MutateOverload       Mutation = "overload-500"
	MutateVersion        Mutation = "version-missing"
	MutateVersionFlap    Mutation = "version-changes"
	MutateImage          Mutation = "image-ignored"
	MutateImageError     Mutation = "image-500"
	MutateAdapter        Mutation = "adapter-ignored"
	MutateAdapterUnknown Mutation = "unknown-adapter-accepted"
	MutateDrain          Mutation = "drain-kills"
	MutateDrainOpen      Mutation = "drain-takes-more"
)

// Mutations returns every mutation with the numbers of the conformance cases one of which has to fail by it, on every engine to which the case applies.
func Mutations() map[Mutation][]int {
	return map[Mutation][]int{
		MutateHealth: {1}, MutateFlap: {1}, MutateModels: {2}, MutateContext: {2}, MutateUsageMissing: {3}, MutateUsageWrong: {3}, MutateFinish: {3, 4},
		MutateDone: {4}, MutateStreamUsage: {4}, MutateStreamFinish: {4}, MutateStreamJSON: {4}, MutateToolsText: {5}, MutateToolArguments: {5}, MutateReasoning: {5},
		MutateFormat: {6}, MutateLogprobs: {7}, MutateSeed: {7}, MutateSampling: {7}, MutateErrorStatus: {8}, MutateErrorAccepted: {8}, MutateCancel: {9},
		MutateMetricName: {10}, MutateMetricUnit: {10}, MutateMetricPage: {10}, MutateMetricFrozen: {10}, MutateOverload: {11}, MutateVersion: {12}, MutateVersionFlap: {12},
		MutateImage: {13}, MutateImageError: {13}, MutateAdapter: {14}, MutateAdapterUnknown: {14}, MutateDrain: {15}, MutateDrainOpen: {15},
	}
}
