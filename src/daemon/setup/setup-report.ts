/** Collects what set-up did, for the operator. */
export class SetupReport {
  readonly #lines: string[] = []
  #complete = true

  made(path: string, what: string): void {
    this.#add('made', path, what)
  }

  kept(path: string, what: string): void {
    this.#add('kept', path, what)
  }

  changed(path: string, what: string): void {
    this.#add('changed', path, what)
  }

  warned(path: string, what: string): void {
    this.#add('warning', path, what)
  }

  /** Reports something that the daemon needs and set-up could not make. */
  missing(path: string, what: string): void {
    this.#complete = false
    this.#add('MISSING', path, what)
  }

  /** False if the operator must add something before the daemon can start. */
  get complete(): boolean {
    return this.#complete
  }

  get text(): string {
    return this.#lines.join('\n')
  }

  #add(verb: string, path: string, what: string): void {
    this.#lines.push(`  ${verb.padEnd(8)} ${path}  (${what})`)
  }
}

/** Ends the set-up; the message says what to do. */
export class SetupError extends Error {
  override readonly name = 'SetupError'
}
