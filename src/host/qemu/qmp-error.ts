/** The monitor answered, but refused the command or left out what was asked for. */
export class QmpRefusal extends Error {
  override readonly name = 'QmpRefusal'

  constructor(error: unknown) {
    const { desc } = (error ?? {}) as { desc?: unknown }
    super(typeof desc === 'string' ? desc : 'refused without a reason')
  }
}

/** The connection is over, or was never made; `why` is an errno name such as `ENOENT`, or our own word. */
export class QmpLost extends Error {
  override readonly name = 'QmpLost'
  readonly why: string

  constructor(why: string) {
    super(`control connection lost: ${why}`)
    this.why = why
  }
}
