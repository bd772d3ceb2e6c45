import { limits } from '../config/limits.ts'
import { Semaphore } from '../lib/semaphore.ts'
import { isLong } from './steps/steps.ts'
import type { Step, StepKind } from '../core/plan/step.ts'

/** Runs a step of a pass that has a place. A long one leaves the place to other passes meanwhile. */
export type RunInPlace = (step: Step, run: () => Promise<void>, signal: AbortSignal) => Promise<void>

/**
 * Bounds how many passes look at the host and act at once. A long step must not keep the passes of other VMs from
 * beginning, so it leaves the place of its pass, and takes one among the steps of its kind.
 */
export class PassPlaces {
  readonly #passes = new Semaphore(limits.passesMax)
  readonly #longSteps = new Map<StepKind, Semaphore>()

  /** Runs a pass when a place is free, in order of arrival. Passes that may wait come after all others. */
  async run(pass: (inPlace: RunInPlace) => Promise<void>, mayWait: () => boolean): Promise<void> {
    let leave = await this.#passes.take(undefined, mayWait)
    const inPlace: RunInPlace = async (step, run, signal) => {
      if (!isLong(step)) return run()
      leave()
      try {
        await this.#ofKind(step.kind).run(run, signal)
      } finally {
        leave = await this.#passes.take()
      }
    }
    try {
      await pass(inPlace)
    } finally {
      leave()
    }
  }

  #ofKind(kind: StepKind): Semaphore {
    let places = this.#longSteps.get(kind)
    if (places === undefined) {
      // The pool bounds what it fetches, and several VMs may wait for one image.
      places = new Semaphore(kind === 'image.ensure-fetched' ? Infinity : limits.longStepsMax)
      this.#longSteps.set(kind, places)
    }
    return places
  }
}
