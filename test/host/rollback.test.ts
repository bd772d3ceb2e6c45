/**
 * An upgrade that changes the schema of the records, and the way back, under a running guest. The installed package is
 * first the newer and then the previous one, because there is no second package: what a newer build would do to the
 * database is done by hand.
 */
import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { makeBare } from '../../lab/inside/bare.ts'
import { call, settled } from '../../lab/inside/controller.ts'
import { mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { sleeper } from '../../lab/inside/sleepers.ts'
import { until } from '../../lab/inside/until.ts'
import { SCHEMA_VERSION } from '../../src/store/database/migrations.ts'
import { keepSchemaCopy, schemaCopiesOf, schemaCopyPath } from '../../src/store/database/schema-copies.ts'
import { ageStore } from '../age-store.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const STATE = '/var/lib/vmhostd'
const DATABASE = `${STATE}/vmhostd.db`
const [kept, younger] = [sleeper('kept', 30), sleeper('younger', 31)] as const
const unitOf = ({ id }: { readonly id: string }): string => `vmhost-${id}`

function edit(change: (db: DatabaseSync) => void): void {
  const db = new DatabaseSync(DATABASE)
  try {
    change(db)
  } finally {
    db.close()
  }
}

const removeCopies = (): void => rmSync(schemaCopiesOf(STATE), { recursive: true, force: true })

async function restarted(): Promise<void> {
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
}

sharedHost({
  remove: () => {
    removeCopies()
    rmSync(`${STATE}/pool/disks/${younger.id}`, { recursive: true, force: true })
  },
})

story(
  'an upgrade and the way back end no guest',
  {
    'an upgrade copies the records before it changes their schema': async () => {
      await makeBare(kept)
      const pid = await mainPid(unitOf(kept))
      await sh('systemctl', 'stop', 'vmhostd')
      removeCopies()
      ageStore(STATE, SCHEMA_VERSION - 1)
      await restarted()
      await settled(kept.id, 'running')
      assert.ok(existsSync(schemaCopyPath(STATE, SCHEMA_VERSION - 1)))
      assert.equal(await mainPid(unitOf(kept)), pid)
    },
    'the previous package does not start on newer records, and its log names the copy': async () => {
      await sh('systemctl', 'stop', 'vmhostd')
      edit((db) => {
        keepSchemaCopy(db, STATE)
        db.exec(`ALTER TABLE vms ADD COLUMN later TEXT; PRAGMA user_version = ${SCHEMA_VERSION + 1}`)
      })
      const since = `@${Math.floor(Date.now() / 1000)}`
      await sh('systemctl', 'start', 'vmhostd').catch(() => '')
      await until('the log says why', async () => {
        const log = await sh('journalctl', '--unit=vmhostd', `--since=${since}`, '--output=cat')
        return log.includes(`copies/schema-${SCHEMA_VERSION}.db`) ? true : undefined
      })
    },
    'the copy that is put back is the way back; younger VMs keep running': async () => {
      edit((db) => db.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`))
      await sh('systemctl', 'reset-failed', 'vmhostd')
      await restarted()
      await makeBare(younger)
      const pids = await Promise.all([kept, younger].map((one) => mainPid(unitOf(one))))
      await sh('systemctl', 'stop', 'vmhostd')
      edit((db) => db.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`))
      await sh('vmhostd', 'restore', schemaCopyPath(STATE, SCHEMA_VERSION))
      await restarted()
      await settled(kept.id, 'running')
      assert.equal((await call('GET', `/v1/vms/${younger.id}`)).status, 404)
      assert.deepEqual(await Promise.all([kept, younger].map((one) => mainPid(unitOf(one)))), pids)
    },
  },
  { skip: skipWithoutBareGuest },
)
