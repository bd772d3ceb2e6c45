import { guardLab, labDown, labUp } from '../lab/lab.ts'
import type { LabExtras, LabState } from '../lab/lab.ts'
import { withCleanup } from './interrupt.ts'

/** Boots a lab for this work, and throws it away afterwards, however this process ends. */
export async function inOwnLab<T>(
  name: string,
  work: (lab: LabState) => Promise<T>,
  extras: LabExtras = {},
): Promise<T> {
  const endGuard = guardLab(name)
  return withCleanup(
    async () => {
      await labDown(name)
      endGuard()
    },
    async () => work(await labUp(name, extras)),
  )
}
