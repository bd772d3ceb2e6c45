import type { ApiDescription } from '../listener/openapi.ts'

const DESCRIPTION = `Other hosts take VMs from this one. The controller offers a VM to one node; that node then pulls the VM from here.

**The source decides.** The stage of a migration is on its disk before an answer reports it. From \`released\` on only the destination
may run the guest, in every other stage only the source.

Repeating any request is safe. Who asks is the common name of the client certificate. For a node that an offer does not name, the
migration does not exist.

Errors are \`application/problem+json\`; decide on \`code\`, and see [all codes](/docs/errors). Unknown members, wrong types and
unknown query parameters are refused. Bodies have at most 4 KiB. Times are RFC 3339 in UTC.`

/** Returns the parts of the OpenAPI document that routes do not have. */
export const describeCoordination = (version: string): ApiDescription => ({
  title: 'vmhostd coordination',
  version,
  text: DESCRIPTION,
  tags: [
    { name: 'Migrations', description: 'VMs that this host offers to other hosts.' },
    { name: 'Health', description: 'The health of the daemon itself.' },
    { name: 'Documentation', description: 'The documentation of this API.' },
  ],
  certificate: 'A client certificate of a node. Its common name is the name of that node.',
})
