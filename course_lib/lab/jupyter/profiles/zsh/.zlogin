# The last that zsh reads: the folders of the course go in front, and all is as the user has it.
ZDOTDIR=$COURSE_ZDOTDIR
if [[ -r $ZDOTDIR/.zlogin ]]; then . "$ZDOTDIR/.zlogin"; fi
unset course_profile COURSE_ZDOTDIR
[[ $ZDOTDIR != $HOME ]] || unset ZDOTDIR
export PATH="$COURSE_TERMINAL_PATH:$PATH"
