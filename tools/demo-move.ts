/*
 * The move in the demo, beside its two labs: the VM of the first goes to the second with `vmhostctl vm migrate`, and
 * the same guest answers there.
 */
import { arrive } from '../test/two-hosts/both-hosts.ts'
import { giveProfile } from '../test/two-hosts/give-profile.ts'
import { step, StepFailed } from './step.ts'

const VM = 'web-1'
const FOLDER = '/root/host-2'
/** Holds the boot id of the guest, for the second host. */
const BOOT_ID = '/root/demo-boot-id'

try {
  const { first, second } = await step(
    'a second host, and one authority for the node certificates of both',
    arrive,
  )
  for (const { controller } of [first, second]) controller.close()
  const profile = await giveProfile(first, second, FOLDER)
  first.copyTo(second, BOOT_ID)
  const moved = await step(`vmhostctl vm migrate ${VM} --to host-2.toml, on the first host`, () =>
    first.run(
      ...['vmhostctl', 'vm', 'migrate', VM, '--to', profile],
      ...['--source-url', `https://${first.address}:9001`],
    ),
  )
  for (const line of moved.split('\n')) console.log(`    | ${line}`)
} catch (error) {
  if (!(error instanceof StepFailed)) throw error
  process.exitCode = 1
}
