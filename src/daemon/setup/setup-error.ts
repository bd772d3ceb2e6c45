/** Set-up cannot go on; the message says what to do. */
export class SetupError extends Error {
  override readonly name = 'SetupError'
}
