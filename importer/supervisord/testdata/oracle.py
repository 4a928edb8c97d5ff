"""Reads paths of configuration files from standard input, and prints for each a line of JSON with
what supervisord makes of it: {"error": TEXT} or {"processes": [...]}.

What depends on the machine is replaced: users, directories and plugins need not exist.
"""
import json, os, shlex, sys
import supervisor.datatypes as datatypes
import supervisor.options as options


def user(name):
    if not name:
        raise ValueError('no name')
    return name


datatypes.existing_dirpath = options.existing_dirpath = lambda v: v
options.existing_directory = lambda v: v
options.name_to_uid = user
options.gid_for_uid = lambda uid: 0
options.colon_separated_user_group = lambda arg: (arg, 0)
options.platform.node = lambda: 'host1'
options.ServerOptions.import_spec = lambda self, spec: object


def logfile(value):
    if value is datatypes.Automatic:
        return 'AUTO'
    return 'NONE' if value is None else value


def argv(command):
    try:
        return shlex.split(command)
    except ValueError:
        return None


def read(path):
    o = options.ServerOptions()
    o.configfile = path
    o.here = os.path.dirname(path)
    section = o.read_config(path)
    processes = []
    for group in section.process_group_configs:
        for p in group.process_configs:
            restart = {False: 'false', datatypes.RestartUnconditionally: 'true',
                       datatypes.RestartWhenExitUnexpected: 'unexpected'}[p.autorestart]
            processes.append({
                'group': group.name, 'group_priority': group.priority, 'name': p.name,
                'command': p.command, 'argv': argv(p.command), 'directory': p.directory or '',
                'umask': -1 if p.umask is None else p.umask, 'priority': p.priority,
                'autostart': p.autostart, 'autorestart': restart, 'startsecs': p.startsecs,
                'startretries': p.startretries, 'user': p.uid or '',
                'stdout_logfile': logfile(p.stdout_logfile), 'stderr_logfile': logfile(p.stderr_logfile),
                'stdout_backups': p.stdout_logfile_backups, 'stderr_backups': p.stderr_logfile_backups,
                'stdout_maxbytes': p.stdout_logfile_maxbytes, 'stderr_maxbytes': p.stderr_logfile_maxbytes,
                'stdout_syslog': p.stdout_syslog, 'stderr_syslog': p.stderr_syslog,
                'stopsignal': int(p.stopsignal), 'stopwaitsecs': p.stopwaitsecs,
                'stopasgroup': p.stopasgroup, 'killasgroup': p.killasgroup,
                'exitcodes': p.exitcodes or None, 'redirect_stderr': p.redirect_stderr,
                'environment': p.environment or None,
            })
    return processes


for line in sys.stdin:
    try:
        result = {'processes': read(line.rstrip('\n'))}
    except Exception as e:
        result = {'error': '%s: %s' % (type(e).__name__, e)}
    print(json.dumps(result, sort_keys=True))
