import { readFile, stat } from './pool-files.ts'

type Known<T> = { readonly version: string; readonly value: T }

/**
 * Reads small files of the pool, each again only when it is another file or has changed. It may miss a change in place in
 * the same tick of the kernel's clock as the read, some milliseconds: files like these are replaced.
 */
export class KnownFiles<T> {
  readonly #parse: (text: string) => T
  readonly #known = new Map<string, Known<T>>()

  /** @param parse may throw; what it refuses is read again each time */
  constructor(parse: (text: string) => T) {
    this.#parse = parse
  }

  /** Returns what the file says. Throws errors of system calls, and what `parse` throws. */
  async read(path: string): Promise<T> {
    try {
      // Taken before the read, so a change during it is seen the next time. No system call sets the time of a change.
      const { dev, ino, ctimeNs } = await stat(path, { bigint: true })
      const version = `${dev} ${ino} ${ctimeNs}`
      const known = this.#known.get(path)
      if (known?.version === version) return known.value
      const value = this.#parse(await readFile(path, 'utf8'))
      this.#known.set(path, { version, value })
      return value
    } catch (error) {
      this.#known.delete(path)
      throw error
    }
  }

  /** Must be called when the file is removed for good. */
  forget(path: string): void {
    this.#known.delete(path)
  }
}
