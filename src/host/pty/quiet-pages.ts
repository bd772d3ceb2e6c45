import { limits } from '../../config/limits.ts'

/** Something that is mapped, and counts as memory of this process while its pages are in use. */
export type Pages = {
  /** Returns whether it was used since the last call. */
  takeUsed(this: void): boolean
  /** Takes the pages out of this process; the next use brings them back. */
  unload(this: void): void
}

/** Takes pages out of the process that were not used for `limits.consoleQuietMs`. Nothing runs while all are out. */
export class QuietPages {
  readonly #loaded = new Set<Pages>()
  #timer: NodeJS.Timeout | undefined

  /** Watches pages until they are out. */
  watch(pages: Pages): void {
    this.#loaded.add(pages)
    this.#timer ??= setInterval(() => this.#look(), limits.consoleQuietMs).unref()
  }

  /** Forgets pages that are no longer mapped. */
  forget(pages: Pages): void {
    this.#loaded.delete(pages)
  }

  #look(): void {
    for (const pages of this.#loaded) {
      if (pages.takeUsed()) continue
      this.#loaded.delete(pages)
      pages.unload()
    }
    if (this.#loaded.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
