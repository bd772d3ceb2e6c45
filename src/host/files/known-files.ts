import { readFile, stat } from './pool-files.ts'

type Known<T> = { readonly version: string; readonly value: T }

/**
 * Reads small files of the pool, each again only when it is another file or has changed. It may miss a change in place
 * in the same tick of the kernel's clock as the read, some milliseconds: files like these are replaced.
 */
export class KnownFiles<T> {
  readonly #parse: (text: string) => T
  readonly #isKept: (value: T) => boolean
  readonly #known = new Map<string, Known<T>>()

  /**
   * @param parse may throw; the file is then read again each time
   * @param isKept whether the result is kept; one that says that the file is damaged is not,
   * because the read may have failed
   */
  constructor(parse: (text: string) => T, isKept: (value: T) => boolean = () => true) {
    this.#parse = parse
    this.#isKept = isKept
  }

  /** Returns what the file says. Throws errors of system calls, and what `parse` throws. */
  async read(path: string): Promise<T> {
    // Taken before the read, so a change during it is seen the next time. No system call sets the time of a change.
    const { dev, ino, ctimeNs } = await stat(path, { bigint: true })
    const version = `${dev} ${ino} ${ctimeNs}`
    const known = this.#known.get(path)
    if (known?.version === version) return known.value
    const value = this.#parse(await readFile(path, 'utf8'))
    if (this.#isKept(value)) this.#known.set(path, { version, value })
    return value
  }

  /** Must be called when the file is removed for good. */
  forget(path: string): void {
    this.#known.delete(path)
  }
}
