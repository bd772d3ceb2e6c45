/*
 * `./dev demo`: one VM from creation to removal, on a real host. The daemon is killed in the middle, the guest sleeps
 * and wakes, and it becomes a snapshot.
 */
import { attachTo, LAB_NODE, labDown, labUp } from '../lab/lab.ts'
import { buildDeb } from './deb.ts'

const LAB = 'demo'

/** Returns the exit status: 0 only if everything was seen. */
export async function main(args: readonly string[]): Promise<number> {
  if (args.length > 0) {
    console.log(
      './dev demo: boots a microVM through the API in a lab, kills the daemon, sees the VM live on, lets it sleep and wake, and boots another of its snapshot.',
    )
    return args.includes('--help') ? 0 : 2
  }
  const startedAt = performance.now()
  await buildDeb()
  await labDown(LAB)
  const lab = await labUp(LAB)
  const status = await attachTo(lab, [LAB_NODE, '/src/lab/inside/demo.ts'])
  if (status !== 0) {
    console.error(
      `\ndemo failed; look at the lab with ./dev lab sh ${LAB}, and end it with ./dev lab down ${LAB}`,
    )
    return 1
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  console.log(`
  is how a controller asks. The lab still runs: ./dev lab sh ${LAB} to go on by hand, ./dev lab down ${LAB} to end it.

demo passed in ${seconds} s`)
  return 0
}
