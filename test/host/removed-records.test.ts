/** A host whose records are removed under the daemon: it says so, takes no change, and has them again from its copy. */
import assert from 'node:assert/strict'
import { copyFileSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { makeBare } from '../../lab/inside/bare.ts'
import { call, getVm, remove } from '../../lab/inside/controller.ts'
import { mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { sleeper } from '../../lab/inside/sleepers.ts'
import { until } from '../contract/until.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const STATE = '/var/lib/vmhostd'
const COPIES = join(STATE, 'copies')
const runs = sleeper('runs', 60)

const copies = (): readonly string[] => readdirSync(COPIES).filter((name) => name.startsWith('still-open-'))

sharedHost({
  remove: () => {
    rmSync(COPIES, { recursive: true, force: true })
    rmSync(`${STATE}/pool/disks/${runs.id}`, { recursive: true, force: true })
  },
})

let pid = ''

story(
  'records that are removed under the daemon come back from its copy',
  {
    'the daemon shows the fault, copies the records, and takes no change': async () => {
      await makeBare(runs)
      pid = await mainPid(`vmhost-${runs.id}`)
      rmSync(join(STATE, 'vmhostd.db'))
      await until(
        () => readdirSync(STATE).includes('copies') && copies().length > 0,
        (isThere) => isThere,
      )
      assert.match(await sh('vmhostctl', 'sync'), /fault .*vmhostd\.db was removed .*\(state_unwritable\)/)
      const refused = await call('DELETE', `/v1/vms/${runs.id}`)
      assert.equal(refused.status, 503)
    },
    'the copy in their place has the VM, whose guest ran on': async () => {
      await sh('systemctl', 'stop', 'vmhostd')
      for (const name of readdirSync(STATE)) if (name.startsWith('vmhostd.db')) rmSync(join(STATE, name))
      const [copy = ''] = copies()
      copyFileSync(join(COPIES, copy), join(STATE, 'vmhostd.db'))
      await sh('systemctl', 'start', 'vmhostd')
      await ready()
      assert.equal((await getVm(runs.id)).observed.state, 'running')
      assert.equal(await mainPid(`vmhost-${runs.id}`), pid)
      await remove(runs.id)
    },
  },
  { skip: skipWithoutBareGuest },
)
