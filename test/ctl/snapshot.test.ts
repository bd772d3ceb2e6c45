import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import {
  completeUrl,
  Course,
  createVm,
  NIGHTLY,
  partUrls,
  start,
  startBody,
} from '../daemon/support/snapshots.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import type { TestContext } from 'node:test'
import type { SnapshotId } from '../../src/core/snapshots/record.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

async function stageWithVm(t: TestContext): Promise<CtlStage> {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  return stage
}

/** Writes a file for --upload. */
function uploadFile(t: TestContext, content: unknown): string {
  const directory = mkdtempSync(join(tmpdir(), 'upload-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'urls.json')
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const urlsAtHand = ({ host }: CtlStage) => host.store.snapshots.urlsAtHand(NIGHTLY)

test('a snapshot is taken with the URLs of a file; a repetition changes nothing', async (t) => {
  const stage = await stageWithVm(t)
  const path = uploadFile(t, { ...startBody().upload, complete_url: completeUrl() })
  const line = `snapshot create nightly-1 --vm web-1 --upload ${path}`
  assert.deepEqual(await stage.run(line), {
    status: 0,
    out: 'nightly-1: accepted. To wait for it: vmhostctl snapshot wait nightly-1\n',
    err: '',
  })
  assert.deepEqual(urlsAtHand(stage), { parts: new Set([1, 2]), complete: true, head: false })
  const again = await stage.run(line)
  assert.equal(again.out, 'nightly-1: nothing to change; waits for its VM, 0 MiB\n')
})

test('URLs can come from standard input, and with --json the answer is the resource', async (t) => {
  const stage = await stageWithVm(t)
  const readStdin = async (): Promise<string> => JSON.stringify(startBody().upload)
  const { status, out } = await stage.run('snapshot create nightly-1 --vm web-1 --upload - --json', {
    shell: { readStdin },
  })
  assert.equal(status, 0)
  assert.equal(JSON.parse(out).status, 'pending')
})

test('a snapshot begins with the URL of part 1, and its file may say so', async (t) => {
  const stage = await stageWithVm(t)
  const { upload } = startBody()
  const create = (first: unknown) =>
    stage.run(
      `snapshot create nightly-1 --vm web-1 --upload ${uploadFile(t, { ...upload, first_part: first })}`,
    )
  for (const first of [3, 'one']) {
    const { status, err } = await create(first)
    assert.equal(status, 2)
    assert.match(
      err,
      /"first_part" of a new snapshot must be 1\n {2}give the URLs .* with vmhostctl snapshot urls/,
    )
  }
  const created = await create(1)
  assert.equal(created.status, 0, created.err)
  assert.deepEqual(urlsAtHand(stage).parts, new Set([1, 2]))
})

test('URLs beyond the bound of one request are sent in pages', async (t) => {
  const stage = await stageWithVm(t)
  const long = (number: number): string => `https://b.example/${'x'.repeat(600)}?partNumber=${number}`
  const many = Array.from({ length: 4000 }, (_, index) => long(index + 1))
  assert.ok(JSON.stringify(many).length > 2 * limits.bodyBytesMax)
  const path = uploadFile(t, { part_size_mib: 64, part_urls: many })
  const created = await stage.run(`snapshot create nightly-1 --vm web-1 --upload ${path}`)
  assert.equal(created.status, 0, created.err)
  assert.equal(urlsAtHand(stage).parts.size, 4000)
  assert.equal(stage.host.store.snapshots.url(NIGHTLY, 4000)?.reveal(), long(4000))
  const next = uploadFile(t, { first_part: 4001, part_urls: many.map((url) => `${url}&more`) })
  const handed = await stage.run(`snapshot urls nightly-1 --upload ${next}`)
  assert.equal(handed.status, 0, handed.err)
  assert.equal(stage.host.store.snapshots.url(NIGHTLY, 8000)?.reveal(), `${long(4000)}&more`)
})

test('after several pages of URLs the answer is that of all of them', async (t) => {
  const stage = await stageWithVm(t)
  await start(stage.host, startBody({ part_urls: partUrls(limits.partUrlsMax) }))
  const course = new Course(stage.host)
  course.capture(300)
  course.pack(limits.partUrlsMax + 1)
  // The first page has the URLs that are known.
  const path = uploadFile(t, { part_urls: partUrls(limits.partUrlsMax + 1) })
  const handed = await stage.run(`snapshot urls nightly-1 --upload ${path}`)
  assert.match(handed.out, /^nightly-1: accepted\./, handed.err)
  const again = await stage.run(`snapshot urls nightly-1 --upload ${path}`)
  assert.match(again.out, /^nightly-1: nothing to change/)
  course.pack(limits.partUrlsMax + 2)
  const more = uploadFile(t, { part_urls: partUrls(limits.partUrlsMax + 2) })
  const shown = JSON.parse((await stage.run(`snapshot urls nightly-1 --upload ${more} --json`)).out)
  assert.deepEqual([shown.needs_urls, shown.lacking_urls], [false, undefined])
})

test('one file serves for fresh URLs and for the completion', async (t) => {
  const stage = await stageWithVm(t)
  await start(stage.host, startBody({ part_urls: [] }))
  const path = uploadFile(t, { ...startBody().upload, complete_url: completeUrl() })
  const handed = await stage.run(`snapshot urls nightly-1 --upload ${path}`)
  assert.match(handed.out, /^nightly-1: accepted\./)
  assert.equal(urlsAtHand(stage).parts.size, 2)
  const completed = await stage.run(`snapshot complete nightly-1 --upload ${path}`)
  assert.match(completed.out, /^nightly-1: nothing to change/)
  const other = uploadFile(t, { complete_url: completeUrl('two') })
  assert.match((await stage.run(`snapshot complete nightly-1 --upload ${other}`)).out, /: accepted\./)
})

test('an unusable file is refused before any request, and none of its content is shown', async (t) => {
  const stage = await stageWithVm(t)
  const CANARY = 'Canary7f3b'
  for (const [content, words] of [
    // A parser quotes the text around the fault.
    [`{"part_urls": [${CANARY}]}`, /is not JSON/],
    [`{"part_urls": [\n"https://${CANARY}" "https://${CANARY}"]}`, /is not JSON: line 2, column 22/],
    [`{"part_urls": "https://b.example/?sig=${CANARY}"}`, /"part_urls" is not a list of URLs/],
    [`["https://b.example/?sig=${CANARY}"]`, /is not a JSON object/],
  ] as const) {
    const path = uploadFile(t, content)
    const { status, out, err } = await stage.run(`snapshot create nightly-1 --vm web-1 --upload ${path}`)
    assert.equal(status, 2)
    assert.match(err, words)
    assert.ok(!`${out}${err}`.includes(CANARY), err)
  }
  const missing = await stage.run('snapshot create nightly-1 --vm web-1 --upload /nonexistent')
  assert.deepEqual([missing.status, /cannot be read/.test(missing.err)], [2, true])
  assert.match((await stage.run('snapshot create nightly-1 --vm web-1')).err, /it needs --upload/)
  assert.match((await stage.run('snapshot create nightly-1 --upload -')).err, /it needs --vm/)
  assert.equal(stage.host.store.snapshots.count(), 0)
})

test('a refusal of the daemon is reported with what to do next', async (t) => {
  const stage = await stageWithVm(t)
  const path = uploadFile(t, startBody().upload)
  const unknown = await stage.run(`snapshot create nightly-1 --vm web-9 --upload ${path}`)
  assert.equal(unknown.status, 1)
  assert.match(unknown.err, /there is no VM web-9.*\n {2}vmhostctl snapshot ls and vmhostctl vm ls show/)
  const inside = uploadFile(t, { part_size_mib: 64, part_urls: ['https://127.0.0.1/k?sig=CANARY'] })
  const refused = await stage.run(`snapshot create nightly-1 --vm web-1 --upload ${inside} --json`)
  const { error } = JSON.parse(refused.err)
  assert.deepEqual(
    [refused.status, error.code, error.snapshot, 'vm' in error],
    [1, 'url_not_allowed', 'nightly-1', false],
  )
  assert.equal(error.problem.errors[0].pointer, '/upload/part_urls/0')
  assert.ok(!refused.err.includes('CANARY'))
  await start(stage.host)
  new Course(stage.host).fail({ resumable: false })
  const failed = await stage.run(`snapshot urls nightly-1 --upload ${path}`)
  assert.match(failed.err, /has failed for good.*\n {2}vmhostctl snapshot rm nightly-1, then take another/)
})

test('snapshots are listed with their progress and their needs', async (t) => {
  const stage = await stageWithVm(t)
  assert.match((await stage.run('snapshot ls')).out, /^no snapshots; vmhostctl snapshot create --help/)
  for (const id of ['a', 'b', 'c', 'd']) await start(stage.host, startBody({ part_urls: [] }), id)
  const course = (id: string): Course => new Course(stage.host, id as SnapshotId)
  course('a').sendAll()
  course('a').complete()
  stage.host.store.snapshots.shed('a' as SnapshotId, 7000)
  course('b').capture(300)
  for (const number of [1, 2, 3]) course('b').pack(number)
  course('b').sent(2)
  course('c').fail({ resumable: true })
  const { out } = await stage.run('snapshot ls')
  assert.deepEqual(
    out
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/)),
    [
      ['ID', 'VM', 'STATUS', 'DONE', 'SIZE', 'STORED', 'STAGED', 'CAPTURED', 'ERROR'],
      ['a', 'web-1', 'completed', '100 %', '200 MiB', '128 MiB', '0 MiB', '1970-01-01T00:00:02.000Z', '-'],
      [
        'b',
        'web-1',
        'uploading',
        '33 %',
        '300 MiB',
        '-',
        '192 MiB',
        '1970-01-01T00:00:02.000Z',
        'needs URLs for parts 1, 3',
      ],
      ['c', 'web-1', 'failed', '0 %', '-', '-', '-', '-', 'the store answered 503 SlowDown (sending part 1)'],
      ['d', 'web-1', 'pending', '0 %', '-', '-', '-', '-', '-'],
    ],
  )
  const narrowed = await stage.run('snapshot ls --vm web-1 --status failed --json')
  assert.deepEqual(
    JSON.parse(narrowed.out).items.map(({ id }: { id: string }) => id),
    ['c'],
  )
  assert.equal((await stage.run('snapshot ls --status lost')).status, 2)
})

test('all pages of a long list are read', async (t) => {
  const stage = await stageWithVm(t)
  for (let number = 0; number < limits.listItemsDefault + 1; number += 1)
    await start(stage.host, startBody({ part_urls: [] }), `n-${number}`)
  const { out } = await stage.run('snapshot ls --json')
  assert.equal(JSON.parse(out).items.length, limits.listItemsDefault + 1)
})

test('a snapshot is shown with all its known properties', async (t) => {
  const stage = await stageWithVm(t)
  await start(stage.host, startBody({ part_urls: [] }))
  const course = new Course(stage.host)
  course.capture(300)
  for (const number of [1, 2, 3]) course.pack(number)
  const { out } = await stage.run('snapshot get nightly-1')
  for (const words of [
    /^nightly-1\n/,
    /^ {2}VM +web-1$/m,
    /^ {2}status +uploading: compressing and sending$/m,
    /^ {2}done +0 MiB of 300 MiB, 0 %$/m,
    /^ {2}parts +of 64 MiB: 3 compressed, 0 sent$/m,
    /^ {2}needs URLs +for parts 1-3$/m,
    /^ +give fresh ones of the same upload: vmhostctl snapshot urls nightly-1 --upload FILE$/m,
    /^ {2}staged +192 MiB on the host$/m,
    /^ {2}paused for +12 ms$/m,
    /^ {2}consistency +as a power failure would have left it$/m,
  ])
    assert.match(out, words)
  assert.equal(JSON.parse((await stage.run('snapshot get nightly-1 --json')).out).parts.packed, 3)
  assert.equal((await stage.run('snapshot get nightly-9')).status, 1)
})

test('several snapshots are deleted, even if some are gone already', async (t) => {
  const stage = await stageWithVm(t)
  await start(stage.host)
  const { status, out } = await stage.run('snapshot rm nightly-1 nightly-9')
  assert.deepEqual([status, out], [0, 'nightly-1: gone\nnightly-9: did not exist\n'])
  assert.equal(stage.host.store.snapshots.count(), 0)
  assert.deepEqual(JSON.parse((await stage.run('snapshot rm nightly-1 --json')).out), {
    id: 'nightly-1',
    gone: true,
  })
})

test('a snapshot that waits for room is shown with that, by itself and among those in trouble', async (t) => {
  const stage = await stageWithVm(t)
  await start(stage.host)
  new Course(stage.host).capture(300)
  stage.host.store.snapshots.advance(NIGHTLY, { waitingFor: 'room in staging', nowMs: 3000 })
  assert.match((await stage.run('snapshot get nightly-1')).out, /^ {2}waits for +room in staging$/m)
  assert.match((await stage.run('snapshot ls')).out, / waits for room in staging$/m)
  assert.match(
    (await stage.run('sync')).out,
    /^nightly-1 +web-1 +uploading +0 % +waits for room in staging$/m,
  )
  const late = await stage.run('snapshot wait nightly-1 --timeout 0')
  assert.match(late.err, /^ {2}it waits for room in staging$/m)
  const { waiting_for: waitingFor } = JSON.parse((await stage.run('snapshot get nightly-1 --json')).out)
  assert.equal(waitingFor, 'room in staging')
})

test('the host is shown with its snapshots, and with those that wait or have failed', async (t) => {
  const stage = await stageWithVm(t)
  for (const id of ['a', 'b']) await start(stage.host, startBody({ part_urls: partUrls(1) }), id)
  new Course(stage.host, 'a' as SnapshotId).fail({ resumable: true })
  const course = new Course(stage.host, 'b' as SnapshotId)
  course.capture(300)
  course.pack(1)
  course.pack(2)
  const { out } = await stage.run('sync')
  assert.match(out, /^ {2}snapshots +2, 1 uploading, 1 failed$/m)
  assert.match(out, /^ {2}staging +0 MiB of 1 GiB$/m)
  assert.match(
    out,
    /^SNAPSHOTS IN TROUBLE .*\na +web-1 +failed .*503 SlowDown \(.*\nb +web-1 +uploading +0 % +needs URLs/m,
  )
})
