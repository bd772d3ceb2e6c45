import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { run } from './run.ts'
import { ErrnoError } from '../../src/host/ffi/errno-error.ts'
import { NETLINK_ROUTE, NetlinkSocket } from '../../src/host/netlink/netlink-socket.ts'
import { dumpLinks } from '../../src/host/netlink/route-codec.ts'
import { Rtnetlink } from '../../src/host/netlink/rtnetlink.ts'
import { atEnd } from '../contract/at-end.ts'

/** The fields that we read of the JSON of ip; each command gives some of them. */
type Shown = {
  readonly ifindex: number
  readonly ifname: string
  readonly ifalias?: string
  readonly address?: string
  readonly qdisc: string
  readonly flags: readonly string[]
  readonly linkinfo?: {
    readonly info_kind: string
    readonly info_data?: { readonly type: string; readonly user?: number; readonly group?: number }
  }
  readonly addr_info: readonly { readonly local: string; readonly prefixlen: number }[]
  readonly dst: string
  readonly lladdr: string
}

const ipBatch = (lines: readonly string[]): Promise<unknown> =>
  run(['ip', '-batch', '-'], { input: lines.map((line) => `${line}\n`).join('') })
const ipJson = async (...args: string[]): Promise<Shown[]> =>
  JSON.parse((await run(['ip', '-j', '-d', ...args])).stdout) as Shown[]

describe('rtnetlink, compared with what ip shows', { skip }, () => {
  const links = new Rtnetlink()
  after(() => links.close())

  before(() =>
    ipBatch([
      'tuntap add dev tap7 mode tap user 100007 group 100007',
      'tuntap add dev tun8 mode tun',
      'link add pair0 type veth peer name pair1',
      'link set dev tap7 alias vmhostd:store-1:web-1',
      'addr add 169.254.0.1/32 dev tap7 scope link',
      'addr add 198.51.100.1/24 dev tap7',
      'addr add 198.51.100.9 peer 203.0.113.9/32 dev tap7',
      'addr add fe80::1/64 dev tap7 nodad',
      'addr add 2001:db8:0:1::ffff/64 dev tap7 nodad',
      'link set dev tap7 up',
      'link set dev pair0 up',
      'route add 192.0.2.10/32 dev tap7',
      'route add 192.0.2.128/25 dev tap7 metric 5',
      'route add default dev tap7',
      'route add 192.0.2.11/32 dev pair0',
      'route add 192.0.2.12/32 dev tap7 table 100',
      'route add 2001:db8::10/128 dev tap7',
      'route add 2001:db8::11/128 dev pair0',
      'route add default dev tap7 metric 7',
      'neigh replace 192.0.2.10 lladdr 02:76:00:00:00:0a dev tap7 nud permanent',
      'neigh replace 192.0.2.11 lladdr 02:76:00:00:00:0b dev tap7 nud stale',
      'neigh replace 192.0.2.12 lladdr 02:76:00:00:00:0c dev pair0 nud permanent',
      'neigh replace 2001:db8::10 lladdr 02:76:00:00:00:0a dev tap7 nud permanent',
    ]),
  )

  for (const name of ['tap7', 'tun8', 'pair0', 'lo']) {
    test(`the link ${name}`, async () => {
      const [shown = assert.fail(`ip does not show ${name}`)] = await ipJson('link', 'show', 'dev', name)
      const link = links.link(name)
      assert.equal(link?.index, shown.ifindex)
      assert.equal(link.name, shown.ifname)
      assert.equal(link.up, shown.flags.includes('UP'))
      assert.equal(link.carrier, !shown.flags.includes('NO-CARRIER') && shown.flags.includes('UP'))
      assert.equal(link.qdisc, shown.qdisc)
      assert.equal(link.alias, shown.ifalias)
      assert.equal(link.kind, shown.linkinfo?.info_kind)
      const tun = shown.linkinfo?.info_data
      assert.deepEqual(link.tap, tun?.type === 'tap' ? { owner: tun.user, group: tun.group } : undefined)
      assert.equal(link.macAddress, shown.address)
    })
  }

  test('a link that is not there', () => {
    assert.equal(links.link('no-such-link'), undefined)
  })

  test('the links of one driver', () => {
    assert.deepEqual(new Set(links.links('tun').map(({ name }) => name)), new Set(['tap7', 'tun8']))
  })

  test('the addresses of one link', async () => {
    const [shown] = await ipJson('addr', 'show', 'dev', 'tap7')
    const addresses = (shown?.addr_info ?? []).map(({ local, prefixlen }) => `${local}/${prefixlen}`)
    assert.equal(addresses.length, 5)
    assert.deepEqual(new Set(links.addresses(indexOf('tap7'))), new Set(addresses))
  })

  test('the routes of one link in the main table', async () => {
    const shown = [
      ...(await ipJson('-4', 'route', 'show', 'dev', 'tap7')),
      ...(await ipJson('-6', 'route', 'show', 'dev', 'tap7')),
    ].map(({ dst }) => dst)
    const whole = (text: string): string =>
      text.replace(/^(0\.0\.0\.0|::)\/0$/, 'default').replace(/\/(32|128)$/, '')
    const routes = links.routes(indexOf('tap7')).map(whole)
    assert.ok(routes.includes('192.0.2.10') && routes.includes('2001:db8::10'))
    assert.deepEqual(sorted(routes), sorted(shown))
  })

  test('the permanent neighbours of one link', async () => {
    const shown = await ipJson('neigh', 'show', 'dev', 'tap7', 'nud', 'permanent')
    assert.deepEqual(
      links.permanentNeighbours(indexOf('tap7')).map(({ address, macAddress }) => `${address} ${macAddress}`),
      shown.map(({ dst, lladdr }) => `${dst} ${lladdr}`),
    )
    assert.equal(shown.length, 2)
  })

  test('the routes and neighbours of all links at once are those of each', async () => {
    await ipBatch([
      'route add 203.0.113.0/24 nexthop dev tap7 nexthop dev pair0',
      'route add blackhole 203.0.114.0/24',
    ])
    const [routes, neighbours] = [links.routesByLink(), links.permanentNeighboursByLink()]
    for (const index of ['tap7', 'tun8', 'pair0', 'lo'].map(indexOf)) {
      assert.deepEqual(routes.get(index) ?? [], links.routes(index))
      assert.deepEqual(neighbours.get(index) ?? [], links.permanentNeighbours(index))
    }
    for (const name of ['tap7', 'pair0']) assert.ok(routes.get(indexOf(name))?.includes('203.0.113.0/24'))
  })

  test('a link that went meanwhile is ENODEV', () => {
    assert.throws(() => links.addresses(99_999), { code: 'ENODEV' })
    assert.throws(() => links.routes(99_999), { code: 'ENODEV' })
    assert.throws(() => links.set(99_999, { alias: 'x' }), { code: 'ENODEV' })
  })

  test('the kernel explains a refused request in words', () => {
    const socket = new NetlinkSocket(NETLINK_ROUTE)
    // A dump header with a field that a strict kernel requires to be zero.
    const request = { what: 'list routes', type: 26, body: Buffer.from('02200000fe00000000000000', 'hex') }
    assert.throws(() => socket.dump(request), /^ErrnoError: netlink: list routes: EINVAL \(.*dump request\)$/)
    socket.close()
  })

  test('a long list is whole', async () => {
    const many = Array.from({ length: 200 }, (_, i) => `many${i}`)
    await ipBatch(many.map((name) => `tuntap add dev ${name} mode tap`))
    const names = new Set(links.links('tun').map(({ name }) => name))
    const missing = many.filter((name) => !names.has(name))
    assert.deepEqual(missing, [])
  })

  test('other tasks run between the pages of a list, and a reader may stop before its end', async (t) => {
    const socket = new NetlinkSocket(NETLINK_ROUTE)
    atEnd(t, () => socket.close())
    const whole = socket.dump(dumpLinks('tun')).length
    let [pages, read, turns] = [0, 0, 0]
    for await (const page of socket.pages(dumpLinks('tun'))) {
      pages += 1
      read += page.length
      setImmediate(() => (turns += 1))
    }
    assert.equal(read, whole)
    assert.ok(pages > 1 && turns >= pages - 1, `${turns} turns in ${pages} pages`)
    for await (const page of socket.pages(dumpLinks('tun'))) {
      assert.ok(page.length < whole)
      break
    }
    assert.equal(socket.dump(dumpLinks('tun')).length, whole)
  })

  test('a list whose reader gave it up does not keep the socket from another one', async (t) => {
    const socket = new NetlinkSocket(NETLINK_ROUTE)
    atEnd(t, () => socket.close())
    const whole = socket.dump(dumpLinks('tun')).length
    // These readers stay at their first page, as one does that the kernel does not answer in time.
    await socket.pages(dumpLinks('tun')).next()
    assert.equal(socket.dump(dumpLinks('tun')).length, whole)
    await socket.pages(dumpLinks('tun')).next()
    let read = 0
    for await (const page of socket.pages(dumpLinks('tun'))) read += page.length
    assert.equal(read, whole)
  })

  test('a list that changed while it was read is discarded, and is read again', async (t) => {
    const made = Array.from({ length: 500 }, (_, i) => `tuntap add dev made${i} mode tap`)
    const making = run(['ip', '-batch', '-'], { input: made.join('\n') })
    const once = new NetlinkSocket(NETLINK_ROUTE, { dumpAttempts: 1 })
    atEnd(t, () => once.close())
    const flow = { over: false }
    const end = making.finally(() => (flow.over = true))
    let overtaken = 0
    while (!flow.over) {
      try {
        once.dump(dumpLinks('tun'))
      } catch (error) {
        assert.equal(error instanceof ErrnoError && error.code, 'EINTR')
        overtaken++
      }
      await new Promise((resolve) => setImmediate(resolve))
    }
    await end
    assert.ok(overtaken > 0)
    assert.equal(links.links('tun').length, 2 + 200 + 500)
  })

  const indexOf = (name: string): number => links.link(name)?.index ?? assert.fail(`no link ${name}`)
  const sorted = (texts: readonly string[]): string[] => texts.toSorted((a, b) => (a < b ? -1 : 1))
})
