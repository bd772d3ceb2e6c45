/** A daemon whose event loop makes no progress is ended by systemd and starts again; its guests do not notice. */
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { askBare, lifeOf, makeBare, udpEcho } from '../../lab/inside/bare.ts'
import { settled } from '../../lab/inside/controller.ts'
import { anotherDaemon, mainPid, ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { sleeper } from '../../lab/inside/sleepers.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const DROP_IN = '/run/systemd/system/vmhostd.service.d'
const one = sleeper('watched', 60)
const unit = `vmhost-${one.id}`

sharedHost({
  remove: async () => {
    rmSync(DROP_IN, { recursive: true, force: true })
    await sh('systemctl', 'daemon-reload')
  },
})

/** Starts another daemon, under the unit as it is written now. */
async function daemonFromUnit(): Promise<void> {
  await sh('systemctl', 'daemon-reload')
  await sh('systemctl', 'restart', 'vmhostd')
  await ready()
}

let [pid, life] = ['', '']

story(
  'a daemon whose event loop makes no progress is restarted, and its guest lives on',
  {
    'the unit has a watchdog, and a daemon that turns is left alone': async () => {
      assert.equal(await unitProperty('vmhostd', 'WatchdogUSec'), '30s')
      assert.equal(await unitProperty('vmhostd', 'FileDescriptorStorePreserve'), 'yes')
      const daemon = await mainPid('vmhostd')
      await makeBare(one)
      pid = await mainPid(unit)
      life = await lifeOf(one.id)
      assert.equal(await mainPid('vmhostd'), daemon)
    },
    'a daemon that is stopped in the middle is replaced': async () => {
      // The test need not wait for half a minute, and a slow machine must not be taken for a daemon that makes no
      // progress.
      mkdirSync(DROP_IN, { recursive: true })
      writeFileSync(`${DROP_IN}/watchdog.conf`, '[Service]\nWatchdogSec=3s\n')
      await daemonFromUnit()
      const daemon = await mainPid('vmhostd')
      process.kill(Number(daemon), 'SIGSTOP')
      await anotherDaemon(daemon)
      rmSync(DROP_IN, { recursive: true })
      await daemonFromUnit()
      const log = await sh('journalctl', '--unit=vmhostd', '--output=cat', '--lines=200')
      assert.match(log, /Watchdog timeout/)
    },
    'its guest is the same process, with its memory, console and network': async () => {
      await settled(one.id, 'running')
      assert.equal(await mainPid(unit), pid)
      assert.ok(Number(await unitProperty('vmhostd', 'NFileDescriptorStore')) >= 1)
      assert.equal(await lifeOf(one.id), life)
      await askBare(one.id, 'size', /size \d+ sectors/)
      await udpEcho(one.ipv4)
    },
  },
  { skip: skipWithoutBareGuest },
)
