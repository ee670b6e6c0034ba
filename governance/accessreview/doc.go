// Package accessreview is a façade over campaigns in which somebody confirms, account by account, key by key and service account by service account,
// that each still needs what it holds.
//
// A campaign has an owner, who decides, and a due date. It begins with a list of the accounts, keys and service accounts that a tenant has then,
// and of what each holds. The owner confirms an entry or ends it: the account or service account is disabled, the key revoked. What nobody has decided about by the due date lapses,
// which ends it, too. Whoever confirms something confirms what he was shown: if it holds something else meanwhile, he is told to look again.
//
// Nobody decides about his own account, keys and service accounts, nor about an account that he made, that made his, or that got its roles from him within
// [approval.GrantSpan]. The one who started the campaign decides about what the owner may not, and about what neither may, anybody else who manages
// accounts of the tenant. A campaign can be cancelled until it is due: then what waits stays as it is.
//
// A decision is stored before it has an effect, and every replica takes up what another one has left: an entry may be ended twice, which is once,
// and never stays half done. What ends without a request, since it lapses or the request broke off, is recorded before it does; if it cannot be
// recorded, nothing ends. What cannot be ended, because it is the last administrator, is recorded as well.
package accessreview
