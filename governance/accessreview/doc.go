// Package accessreview is a façade over campaigns in which somebody confirms, account by account and key by key, that each still needs what it
// holds.
//
// A campaign has an owner, who decides, and a due date. It begins with a list of the accounts and keys that a tenant has then, and of what each
// holds. The owner confirms an entry or ends it: the account is disabled, the key revoked. What nobody has decided about by the due date lapses,
// which ends it, too. Whoever confirms something confirms what he was shown: if it holds something else meanwhile, he is told to look again.
//
// Nobody decides about his own account and keys, nor about an account that he made, or gave its roles within [approval.GrantSpan]; the one who
// started the campaign decides about what the owner may not. What both may not decide about lapses.
//
// A decision is stored before it has an effect, and every replica takes up what another one has left: an entry may be ended twice, which is once,
// and never stays half done. A lapse is recorded before it ends something; if it cannot be recorded, nothing ends.
package accessreview
