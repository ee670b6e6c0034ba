/** The tokens in a text as the gateway writes them, each once. The server knows more spellings. */
export function tokensIn(text: string): string[] {
  return [...new Set(text.match(/⟦[^⟦⟧·]{1,40}·[0-9A-Z]{5}⟧/g) ?? [])];
}
