/*
 * `./dev demo`: one VM from creation to removal, on real hosts. The daemon is killed in the middle, the guest sleeps
 * and wakes, becomes a snapshot, and moves to another host.
 */
import path from 'node:path'
import { attachTo, besideLabs, LAB_NODE, labDown, labUp } from '../lab/lab.ts'
import { joinLabs } from '../lab/wires.ts'
import { buildDeb } from './deb.ts'
import { checkout } from './paths.ts'
import { runAttached } from './process.ts'
import type { LabState } from '../lab/lab.ts'

const LAB = 'demo'
const SECOND = 'demo-2'

/** Returns the exit status: 0 only if everything was seen. */
export async function main(args: readonly string[]): Promise<number> {
  if (args.length > 0) {
    console.log(
      './dev demo: boots a microVM through the API in a lab, kills the daemon, sees the VM live on, lets it sleep and wake, boots another of its snapshot, and moves the VM to a second lab.',
    )
    return args.includes('--help') ? 0 : 2
  }
  const startedAt = performance.now()
  await buildDeb()
  for (const name of [LAB, SECOND]) await labDown(name)
  const first = await labUp(LAB)
  const passed = (await demoIn(first, 'live')) && (await moveFrom(first))
  if (!passed) {
    console.error(
      `\ndemo failed; look at a lab with ./dev lab sh ${LAB} or ${SECOND}, and end it with ./dev lab down ${LAB} or ${SECOND}`,
    )
    return 1
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  console.log(`
  is how a controller asks. Both labs still run: ./dev lab sh ${LAB} or ${SECOND} to go on by hand, and
  ./dev lab down ${LAB} or ${SECOND} to end one.

demo passed in ${seconds} s`)
  return 0
}

/** Runs a part of the demo inside a lab; returns whether it passed. */
const demoIn = async (lab: LabState, part: string): Promise<boolean> =>
  (await attachTo(lab, [LAB_NODE, '/src/lab/inside/demo.ts', part])) === 0

/** Moves the VM to a second lab, and removes it there; returns whether all of that passed. */
async function moveFrom(first: LabState): Promise<boolean> {
  const second = await labUp(SECOND)
  await joinLabs(first, second)
  const script = path.join(checkout, 'tools', 'demo-move.ts')
  const { argv, env } = besideLabs([first, second], [process.execPath, '--no-warnings', script])
  if ((await runAttached(argv, { env })) !== 0) return false
  return (await demoIn(second, 'moved')) && demoIn(first, 'left')
}
