import { assert } from '../../lib/assert.ts'
import type { Executor } from './executor.ts'

/** Afterwards the image is in the pool, and is what its digest says. */
export const ensureFetched: Executor<'image.ensure-fetched'> = async (step, { host, inputs, signal }) => {
  const source = inputs.sources.get(step.sha256)
  assert(source !== undefined, `no source for the ${step.role} image`)
  await host.storage.ensureImage(step.sha256, source, signal)
}
