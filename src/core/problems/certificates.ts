import type { Entries } from './entry.ts'

/** Problems of the certificates of a host. */
export const certificates = {
  faults: {
    certificates_unusable: {
      retry: 'backoff',
      title: 'The certificate files of a listener do not fit together',
      meaning:
        'The certificate files of a listener cannot be used, such as a key that is not that of its certificate. The listener goes on with those that it read before, until the daemon ends; without any it is not there. The daemon does not start without those of the listener for controllers.',
      remedy:
        'Put the right files into place before the daemon is restarted: they are in use within 10 s. `vmhostd doctor` names those that do not fit.',
      example:
        'the certificate files of the listener controller are refused, and it does not start with them: [path] is not the key of [path]',
      writtenBy: ['src/api/controller/certificate-ends.ts', 'src/api/listener/tls-files.ts'],
    },
  },
} as const satisfies Entries
