/** Ends the set-up; the message says what to do. */
export class SetupError extends Error {
  override readonly name = 'SetupError'
}
