type Value = string | boolean | (string | boolean)[] | undefined

/** Holds the options and operands of one call. */
export class Arguments {
  readonly operands: readonly string[]
  readonly #values: Readonly<Record<string, Value>>

  constructor(operands: readonly string[], values: Readonly<Record<string, Value>>) {
    this.operands = operands
    this.#values = values
  }

  /** The only operand of a command that takes one. */
  get operand(): string {
    return this.operands[0] ?? ''
  }

  isSet(name: string): boolean {
    return this.#values[name] === true
  }

  text(name: string): string | undefined {
    const value = this.#values[name]
    return typeof value === 'string' ? value : undefined
  }

  texts(name: string): readonly string[] {
    const value = this.#values[name]
    return Array.isArray(value) ? value.map(String) : []
  }

  /** Returns whether any of these options was given. */
  hasAny(names: readonly string[]): boolean {
    return names.some((name) => this.#values[name] !== undefined)
  }
}
