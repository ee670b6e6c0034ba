/** What a policy may do to a value, the strictest first, as package mask has it. */
export const actions = ['block', 'redact', 'hash', 'token', 'partial', 'observe', 'allow'];

/** The words that records of older releases have for it. */
const older: Record<string, string> = { masked: 'token', redacted: 'redact', hashed: 'hash', blocked: 'block', passed: 'observe' };

/** What was done to a value, in the words of policies, whenever the record of it was written. */
export const done = (action: string): string => older[action] ?? action;

/** Whether it keeps the value from whoever it is hidden from: the model, or the caller. */
export const hides = (action: string): boolean => ['block', 'redact', 'hash', 'token', 'partial'].includes(done(action));
