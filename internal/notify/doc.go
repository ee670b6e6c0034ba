// Package notify tells people outside of the installation what needs them: one notifier, and channels to a webhook, to an e-mail server and
// to the robots of DingTalk, WeCom and Feishu.
//
// # Promise
//
// [Notifier.Notify] never blocks and never fails. Each channel has a bounded queue of its own, so one that is down delays no other. A channel
// sends an alert until the other side has taken it: an alert arrives at least once, and a receiver that must not act twice compares the id,
// which stays the same over all attempts. An alert is dropped when the queue is full, when the other side refuses it for good, when
// [Config.Deadline] is over, or when the process ends before it is out. Every drop is logged and counted under its reason in
// sluice_notify_dropped_total.
//
// The queue is in memory. Who watches a state therefore raises its alert again for as long as the state lasts; the notifier sends it once
// within [Config.Repeat]. An alert that is resolved is told to whoever was told that it began. After a restart an alert that still lasts is
// sent again.
//
// A failed attempt is repeated after a pause that doubles from one second to one minute, of which a random part is waited, or after the
// time that the other side asks for. Robots get at most 20 messages a minute, which is what their vendors allow.
//
// # What leaves the installation
//
// Only addresses of the configuration are called, redirects are not followed, and the proxies of the environment are not used. A message
// holds the sentences of the alert, names, counts and times; whoever makes an alert puts no prompt, answer, passage or secret into it. No
// secret of a channel, and no part of its address behind the host, reaches an error or the log.
package notify
