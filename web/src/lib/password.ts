const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789'; // none that look alike

/** A password for one sign-in: 20 letters and digits, 116 bits. */
export function oneTimePassword(): string {
  let out = '';
  while (out.length < 20) {
    for (const byte of crypto.getRandomValues(new Uint8Array(32))) {
      if (byte < 256 - (256 % letters.length) && out.length < 20) out += letters[byte % letters.length]; // the rest would make some likelier
    }
  }
  return out;
}
